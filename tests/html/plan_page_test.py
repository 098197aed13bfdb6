#!/usr/bin/env python3
"""Drives the page of `renaissance plan --html` in a headless Chromium, by pointer and by keys.

usage: plan_page_test.py PROGRAM ROOT [--screenshots FOLDER]

With --screenshots it writes the pictures of docs/memory-plan.md. Exits with 77, which ctest counts as skipped, where
Chromium, its driver or Selenium are missing.
"""
import argparse
import html.parser
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    print("skipped: this Python has no selenium; on Debian: apt-get install chromium chromium-driver python3-selenium")
    sys.exit(77)

RECIPE = ["recipes/imagenet_resnet50.yaml", "--device", "cuda", "--precision", "fp16"]
SMALLER = ["--a", "train.batch_size=128"]
DATA = '<script type="application/json" id="plans">'


def program(*arguments):
    done = subprocess.run([str(OPTIONS.program), *arguments], cwd=OPTIONS.root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    # Containers run as root and have a small /dev/shm, neither of which Chromium's defaults allow for.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--window-size=1440,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def use_colours(scheme):
    BROWSER.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def with_plans(page, plans):
    """The page with other plans in it."""
    start = page.index(DATA) + len(DATA)
    return page[:start] + json.dumps(plans).replace("<", "\\u003c") + page[page.index("</script>", start):]


def many_tensors(count):
    """A plan as of a deep network: features live from forward to backward, temporaries for a node."""
    nodes, tensors, slot = count // 4, [], 4096
    for i in range(count):
        is_feature = i % 4 == 0
        first = i // 8
        tensors.append({
            "id": i, "name": f"layer{i}.out", "region": "F_FEATURE_FP16" if is_feature else "T_TEMP_INT8", "dtype": "fp16", "shape": [1, 1, 1, 2048],
            "offset": (i // 4 if is_feature else count // 4 + i % 4) * slot, "slot_bytes": slot, "always": False,
            "train": [first, nodes - 1 - first] if is_feature else [i // 4 % nodes] * 2, "eval": None, "in_place_of": None})
    live = [{"name": f"node {n}", "part": "forward" if 2 * n < nodes else "backward", "live_bytes": slot * (3 + 2 * min(n, nodes - n))} for n in range(nodes)]
    regions = [{"name": name, "base": 0, "bytes": count * slot, "tensors": count} for name in ("F_FEATURE_FP16", "T_TEMP_INT8")]
    programs = [{"name": name, "nodes": live, "peak": {"node": nodes // 2, "tensors": []}} for name in ("train", "eval")]
    zone = {"base": 0, "bytes": (count // 4 + 4) * slot, "lower_bound": count * slot // 4}
    return {"total_bytes": zone["bytes"], "layout": "packed", "device": "cuda", "precision": "fp16", "parameters": 1, "regions": regions, "tensors": tensors,
            "zone": zone, "programs": programs}


class Balance(html.parser.HTMLParser):
    """Whether every element that needs an end has it where it should."""

    VOID = {"meta", "link", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.mistakes = [], []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.mistakes.append(f"</{tag}> at {self.getpos()}")


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.page = pathlib.Path(cls.folder.name) / "plan.html"
        program("plan", *RECIPE, "--html", str(cls.page))
        cls.plan = json.loads(program("plan", *RECIPE, "--json"))
        cls.by_name = {t["name"]: t for t in cls.plan["tensors"]}
        cls.nodes = {p["name"]: p["nodes"] for p in cls.plan["programs"]}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        use_colours("light")
        self.open(self.page)

    def tearDown(self):
        self.assertEqual([entry["message"] for entry in BROWSER.get_log("browser")], [])

    # ---- what a person does

    def open(self, page):
        BROWSER.get(page.as_uri())
        self.frame()
        self.canvas = BROWSER.find_element(By.TAG_NAME, "canvas")

    def frame(self):
        """Waits until what was asked for is drawn."""
        BROWSER.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));")

    def element(self, id):
        return BROWSER.find_element(By.ID, id)

    def elements(self, selector):
        return BROWSER.find_elements(By.CSS_SELECTOR, selector)

    def move(self, x, y):
        """An action that moves the pointer to a point of the canvas."""
        box = self.canvas.size
        return ActionChains(BROWSER, duration=0).move_to_element_with_offset(self.canvas, round(x - box["width"] / 2), round(y - box["height"] / 2))

    def keys(self, *keys):
        ActionChains(BROWSER).send_keys(*keys).perform()
        self.frame()

    def wheel(self, x, y, delta):
        BROWSER.execute_script(
            "const [c, x, y, d] = arguments, r = c.getBoundingClientRect();"
            "c.dispatchEvent(new WheelEvent('wheel', {deltaY: d, clientX: r.left + x, clientY: r.top + y, bubbles: true, cancelable: true}));",
            self.canvas, x, y, delta)
        self.frame()

    # ---- what a person sees

    def view(self):
        return json.loads(self.canvas.get_attribute("data-view"))

    def place(self, tensor, program="train"):
        """Where the middle of a tensor's box is, from the plan alone and the section that the map shows."""
        view, (first, last) = self.view(), tensor[program]
        x = (first + last + 1) / 2
        y = tensor["offset"] - self.plan["zone"]["base"] + tensor["slot_bytes"] / 2
        area = view["map"]
        return (area["left"] + (x - view["x0"]) / (view["x1"] - view["x0"]) * area["width"],
                area["top"] + (view["y1"] - y) / (view["y1"] - view["y0"]) * area["height"])

    def peak_place(self):
        view, peak = self.view(), self.plan["programs"][0]["peak"]["node"]
        area, most = view["curve"], self.nodes["train"][peak]["live_bytes"]
        x = area["left"] + (peak + .5 - view["x0"]) / (view["x1"] - view["x0"]) * area["width"]
        return x, area["top"] + area["height"] * (1 - most / (1.08 * view["y1"]))

    def colour(self, x, y):
        """Of a point of the canvas, as #rrggbb."""
        return "#%02x%02x%02x" % tuple(BROWSER.execute_script(
            "const [canvas, x, y] = arguments, copy = new OffscreenCanvas(1, 1).getContext('2d');"
            "copy.drawImage(canvas, Math.floor(x * devicePixelRatio), Math.floor(y * devicePixelRatio), 1, 1, 0, 0, 1, 1);"
            "return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3)",
            self.canvas, x, y))

    def style(self, name):
        return BROWSER.execute_script("return getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()", name)

    def region_colour(self, name):
        value = BROWSER.execute_script("return getComputedStyle(document.querySelector(`#legend .swatch[data-region=\"${arguments[0]}\"]`)).backgroundColor", name)
        return "#%02x%02x%02x" % tuple(int(part) for part in value[4:-1].split(","))

    def tip(self):
        tip = self.element("tip")
        return tip.text if tip.is_displayed() else None

    def spot_of(self, tensor):
        """A point of a tensor's box beside its label."""
        x, y = self.place(tensor)
        return x, y - 5

    def in_zone(self, program="train"):
        zone = self.plan["zone"]
        end = zone["base"] + zone["bytes"]
        return [t for t in self.plan["tensors"] if zone["base"] <= t["offset"] and t["offset"] + t["slot_bytes"] <= end and (t["always"] or t[program])]

    # ---- tests

    def test_draws_the_tensors_where_the_plan_puts_them(self):
        self.assertIn("resnet50", BROWSER.title)
        big = sorted((t for t in self.in_zone() if t["train"] and t["train"][1] - t["train"][0] > 20), key=lambda t: -t["slot_bytes"])[:8]
        for tensor in big:
            self.assertEqual(self.colour(*self.spot_of(tensor)), self.region_colour(tensor["region"]), tensor["name"])
        self.assertEqual(self.colour(3, 3), self.style("--surface"))
        facts = self.element("facts").text
        for fact in ("transient zone", "lower bound", "overshoot", "persistent", f"{len(self.plan['tensors']):,}", f"{self.plan['parameters']:,}"):
            self.assertIn(fact, facts)
        shown = {row.text.split()[0]: row.text for row in self.elements("#regions tr")[1:]}
        for region in self.plan["regions"]:
            if region["bytes"] > 0:
                self.assertIn(f"{region['tensors']:,} {region['base']:,} {region['bytes']:,}", shown[region["name"]])
            else:
                self.assertIn(region["name"], self.element("empty-regions").text)

    def test_markup_is_well_formed(self):
        balance = Balance()
        balance.feed(self.page.read_text())
        self.assertEqual((balance.open, balance.mistakes), ([], []))
        ids = [e.get_attribute("id") for e in self.elements("[id]")]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(BROWSER.execute_script("return document.compatMode"), "CSS1Compat")

    def test_hovering_tells_what_a_tensor_is(self):
        tensor = self.by_name["layer1.0.conv3.out"]
        self.move(*self.place(tensor)).perform()
        tip, nodes = self.tip(), self.nodes["train"]
        first, last = tensor["train"]
        for text in (tensor["name"], tensor["region"], tensor["dtype"], "[256, 56, 56, 256]", f"{tensor['slot_bytes']:,}", f"{tensor['offset']:,}",
                     f"first user\n{first} {nodes[first]['name']}", f"last user\n{last} {nodes[last]['name']}", "shares bytes"):
            self.assertIn(text, tip)
        sharers = [t for t in self.in_zone() if t is not tensor and t["offset"] < tensor["offset"] + tensor["slot_bytes"] and tensor["offset"] < t["offset"] + t["slot_bytes"]]
        self.assertIn(f"with {len(sharers)} others", tip)
        self.move(3, 3).perform()
        self.assertIsNone(self.tip())

    def test_bytes_handed_on_in_place_are_told_of_both(self):
        taker = max((t for t in self.plan["tensors"] if t["in_place_of"] is not None), key=lambda t: t["slot_bytes"])
        giver = next(t for t in self.plan["tensors"] if t["id"] == taker["in_place_of"])
        for tensor, text in ((taker, f"in place of\n{giver['name']}"), (giver, f"handed on to\n{taker['name']}")):
            self.element("search").clear()
            self.element("search").send_keys(tensor["name"])
            button = next(b for b in self.elements("#list button") if b.text.split("\n")[0] == tensor["name"])
            button.click()
            self.frame()
            self.assertIn(text, self.element("details").text)
            # The click framed the tensor, so that it can be pointed at.
            self.move(*self.place(tensor)).perform()
            self.assertIn(tensor["name"], self.tip())

    def test_search_lists_and_highlights(self):
        dimmed, lit = self.by_name["conv1.out"], self.by_name["layer1.0.conv3.out"]
        self.element("search").send_keys("LAYER1.0.conv")
        self.frame()
        found = [t for t in self.in_zone() if "layer1.0.conv" in t["name"]]
        self.assertIn(f"{len(found)} in the zone", self.element("list").text)
        rows = [row.text.split("\n")[0] for row in self.elements("#list li")]
        self.assertEqual(sorted(rows), sorted(t["name"] for t in found))
        self.assertEqual(self.colour(*self.spot_of(lit)), self.region_colour(lit["region"]))
        self.assertNotEqual(self.colour(*self.spot_of(dimmed)), self.region_colour(dimmed["region"]))
        for wanted in ("s_mask", "int8"):
            self.element("search").clear()
            self.element("search").send_keys(wanted)
            count = sum(any(wanted in t[key].lower() for key in ("name", "region", "dtype")) for t in self.in_zone())
            self.assertIn(f"{count} in the zone", self.element("list").text)

    def test_a_region_can_be_hidden(self):
        tensor = self.by_name["conv1.out"]
        spot = self.spot_of(tensor)
        self.element("legend").find_element(By.CSS_SELECTOR, f"input[value={tensor['region']}]").click()
        self.frame()
        self.assertNotEqual(self.colour(*spot), self.region_colour(tensor["region"]))
        self.move(*spot).perform()
        self.assertNotIn("conv1.out", self.tip() or "")

    def test_wheel_drag_and_buttons_zoom_and_pan(self):
        whole = self.view()
        x, y = self.place(self.by_name["layer1.0.conv3.out"])
        self.wheel(x, y, -240)
        closer = self.view()
        self.assertLess(closer["x1"] - closer["x0"], .8 * (whole["x1"] - whole["x0"]))
        self.assertLess(closer["y1"] - closer["y0"], .8 * (whole["y1"] - whole["y0"]))
        again = self.place(self.by_name["layer1.0.conv3.out"])
        self.assertAlmostEqual(again[0], x, delta=1)
        self.assertAlmostEqual(again[1], y, delta=1)
        self.move(x, y).click_and_hold().move_by_offset(-40, 30).release().perform()
        self.frame()
        moved = self.view()
        self.assertGreater(moved["x0"], closer["x0"])
        self.assertGreater(moved["y0"], closer["y0"])
        self.element("zoom-reset").click()
        self.frame()
        self.assertEqual(self.view(), whole)
        self.element("zoom-in").click()
        self.frame()
        self.assertAlmostEqual(self.view()["x1"] - self.view()["x0"], (whole["x1"] - whole["x0"]) / 2)
        self.element("zoom-out").click()
        self.frame()
        self.assertEqual(self.view(), whole)

    def test_the_peak_lists_who_is_alive(self):
        self.move(*self.peak_place()).click().perform()
        self.frame()
        peak = self.plan["programs"][0]["peak"]
        text = self.element("list").text
        self.assertIn(f"Alive at node {peak['node']}, {self.nodes['train'][peak['node']]['name']}", text)
        self.assertIn(f"{len(peak['tensors'])} tensors", text)
        sizes = {t["id"]: t for t in self.plan["tensors"]}
        first = self.elements("#list li")[0].text.split("\n")[0]
        self.assertEqual(self.by_name[first]["slot_bytes"], sizes[peak["tensors"][0]]["slot_bytes"])

    def test_keys_alone_reach_everything(self):
        self.element("zoom-reset").send_keys(Keys.TAB)
        while BROWSER.switch_to.active_element.tag_name != "canvas":
            self.keys(Keys.TAB)
        whole = self.view()
        self.keys(Keys.ARROW_RIGHT)
        first = self.tip().split("\n")[0]
        self.assertEqual(self.element("spoken").get_attribute("textContent").split(";")[0], first)
        self.keys(Keys.ARROW_UP)
        above = self.tip().split("\n")[0]
        self.assertGreaterEqual(self.by_name[above]["offset"], self.by_name[first]["offset"] + self.by_name[first]["slot_bytes"])
        self.keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        later = self.tip().split("\n")[0]
        self.assertGreaterEqual(self.by_name[later]["train"][0], self.by_name[first]["train"][1])
        self.keys(Keys.ARROW_LEFT, Keys.ENTER)
        self.assertIn(self.tip().split("\n")[0], self.element("details").text)
        self.keys("f")
        self.assertNotEqual(self.view(), whole)
        self.keys("0", "+")
        self.assertLess(self.view()["x1"] - self.view()["x0"], whole["x1"] - whole["x0"])
        self.keys("-", "p")
        self.assertEqual(self.view(), whole)
        self.assertIn("Alive at node", self.element("list").text)
        self.keys("/")
        self.assertEqual(BROWSER.switch_to.active_element.get_attribute("id"), "search")

    def test_evaluation_has_a_map_of_its_own(self):
        self.elements("input[value=eval]")[0].click()
        self.frame()
        self.assertEqual(self.view()["x1"], len(self.nodes["eval"]))
        tensor = max((t for t in self.in_zone("eval") if t["eval"]), key=lambda t: t["slot_bytes"] * (t["eval"][1] - t["eval"][0]))
        self.move(*self.place(tensor, "eval")).perform()
        self.assertIn(f"first user\n{tensor['eval'][0]} {self.nodes['eval'][tensor['eval'][0]]['name']}", self.tip())

    def test_colours_follow_the_system(self):
        light, tensor = self.colour(3, 3), self.by_name["conv1.out"]
        use_colours("dark")
        self.frame()
        self.assertNotEqual(self.colour(3, 3), light)
        self.assertEqual(self.colour(3, 3), self.style("--surface"))
        self.assertEqual(self.colour(*self.spot_of(tensor)), self.region_colour(tensor["region"]))

    def test_two_plans_stand_side_by_side(self):
        page = pathlib.Path(self.folder.name) / "diff.html"
        program("plan", "--diff", RECIPE[0], *RECIPE, *SMALLER, "--html", str(page))
        self.open(page)
        self.assertEqual(len(self.elements("canvas")), 2)
        views = [json.loads(canvas.get_attribute("data-view")) for canvas in self.elements("canvas")]
        self.assertEqual(views[0]["y1"], views[1]["y1"])
        data = json.loads(self.element("plans").get_attribute("textContent"))
        a, b = (one["plan"] for one in data)
        self.assertLess(a["total_bytes"], b["total_bytes"])
        share = f"+{100 * (b['total_bytes'] - a['total_bytes']) / a['total_bytes']:.1f} %".replace("+", "(+")
        self.assertIn(share, self.elements("#regions tr")[-1].text)
        self.assertIn(share, self.elements("#facts > div")[0].text)
        rows = {row.text.split()[0]: row.text for row in self.elements("#regions tr")}
        self.assertTrue(rows["W_DEEP_CONV"].endswith("same"))
        self.assertIn("+", rows["F_FEATURE_FP16"])
        self.canvas = self.elements("canvas")[1]
        self.element("search").send_keys("conv1.out")
        self.assertTrue(any(row.text.startswith("B: conv1.out") for row in self.elements("#list li")))

    def test_names_are_text(self):
        hostile = "</script><img src=x onerror=\"document.title='run'\">\u2028'&amp; 層"
        plan = json.loads(json.dumps(self.plan))
        tensor = next(t for t in plan["tensors"] if t["name"] == "conv1.out")
        tensor["name"] = hostile
        for region in plan["regions"]:
            region["name"] = region["name"].replace("S_MASK", hostile)
        for t in plan["tensors"]:
            t["region"] = t["region"].replace("S_MASK", hostile)
        plan["programs"][0]["nodes"][tensor["train"][0]]["name"] = hostile
        page = pathlib.Path(self.folder.name) / "hostile.html"
        page.write_text(with_plans(self.page.read_text(), [{"title": hostile, "plan": plan}]))
        self.open(page)
        self.move(*self.place(tensor)).perform()
        self.assertEqual(BROWSER.execute_script("return document.querySelector('#tip .name').textContent"), hostile)
        self.move(*self.peak_place()).click().perform()
        self.assertEqual(self.elements("img"), [])
        self.assertNotEqual(BROWSER.title, "run")

    def test_a_plan_without_sharing_is_drawn_too(self):
        page = pathlib.Path(self.folder.name) / "linear.html"
        program("plan", *RECIPE, "memory.layout=linear", "--html", str(page))
        plan = json.loads(program("plan", *RECIPE, "memory.layout=linear", "--json"))
        self.open(page)
        self.assertIn("transient, without sharing", self.element("facts").text)
        base = min(t["offset"] for t in plan["tensors"] if not t["always"])
        tensor = next(dict(t, offset=t["offset"] - base + self.plan["zone"]["base"]) for t in plan["tensors"] if t["name"] == "layer1.0.conv3.out")
        self.move(*self.place(tensor)).perform()
        self.assertIn("layer1.0.conv3.out", self.tip())

    def test_twenty_thousand_tensors(self):
        page = pathlib.Path(self.folder.name) / "many.html"
        page.write_text(with_plans(self.page.read_text(), [{"title": "many", "plan": many_tensors(20_000)}]))
        self.open(page)
        first = BROWSER.execute_script("return performance.getEntriesByName('plan drawn')[0].startTime")
        frames = BROWSER.execute_async_script(
            "const [canvas, done] = arguments, times = [], start = performance.now();"
            "const step = () => { times.push(performance.now());"
            "  if (times.length > 20) return done((times.at(-1) - start) / 20);"
            "  canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -40, clientX: 500, clientY: 500, cancelable: true}));"
            "  requestAnimationFrame(step); };"
            "step();", self.canvas)
        print(f"\n20,000 tensors: first frame {first:.0f} ms after navigation, then {frames:.1f} ms a frame while zooming", flush=True)
        self.element("search").send_keys("layer1999")
        self.assertIn("11 in the zone", self.element("list").text)
        self.assertLess(len(self.elements("*")), 1000)


def write_screenshots(folder):
    """The map with a tensor that is kept and those alive at the peak, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        page = pathlib.Path(scratch) / "plan.html"
        program("plan", *RECIPE, "--html", str(page))
        for scheme, name in (("light", "plan-resnet50.png"), ("dark", "plan-resnet50-dark.png")):
            use_colours(scheme)
            BROWSER.get(page.as_uri())
            BROWSER.execute_script("document.querySelector('canvas').focus({focusVisible: false})")
            ActionChains(BROWSER).send_keys("p", Keys.ARROW_RIGHT, Keys.ENTER, Keys.TAB).perform()
            BROWSER.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));")
            BROWSER.save_screenshot(str(folder / name))
            print(f"{folder / name}: {(folder / name).stat().st_size} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path)
    OPTIONS = parser.parse_args()
    OPTIONS.program, OPTIONS.root = OPTIONS.program.resolve(), OPTIONS.root.resolve()
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("skipped: no chromium or chromedriver; on Debian: apt-get install chromium chromium-driver python3-selenium")
        sys.exit(77)
    BROWSER = start_browser()
    try:
        if OPTIONS.screenshots:
            write_screenshots(OPTIONS.screenshots.resolve())
            outcome = True
        else:
            outcome = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result.wasSuccessful()
    finally:
        BROWSER.quit()
    sys.exit(not outcome)
