// What the page does: reads the plans, and answers to pointer, keys, search and filters.

function element(tag, text = '', classes = '') {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = classes;
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

/** A cell that tells a change from a to b. */
function difference(tag, a, b, text = bytesText) {
  return element(tag, differenceText(a, b, text), a === b ? 'quiet' : 'difference');
}

function swatch(colour) {
  const made = element('span', '', 'swatch');
  made.style.background = colour;
  return made;
}

/** A tensor's name and what is said about it. */
function described(view, i) {
  const {name, lines} = describe(view.plan, view.program, view.boxes, i);
  const list = element('dl', '', 'tensor');
  for (const [term, text] of lines) list.append(element('dt', term), element('dd', text));
  return [element('p', name, 'name'), list];
}

class Page {
  constructor(plans) {
    this.plans = plans;
    if (this.isComparison) plans.forEach((plan, i) => plan.letter = 'AB'[i]);
    const highest = Math.max(1, ...plans.map((p) => p.zone.bytes), ...plans.flatMap((p) => p.programs.map((q) => q.nodes[q.peak.node].live_bytes)));
    const names = new Set(plans.flatMap((p) => p.regions.map((r) => r.name).filter((name) => p.zoneRegions.has(name))));
    this.regionNames = [...names];
    this.views = plans.map((plan) => this.addPanel(plan, highest));
    this.readColours();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.readColours());
    this.addFacts();
    this.addPrograms();
    this.addLegend();
    this.addRegions();
    this.addTools();
    this.showProgram(plans[0].programs[0].name);
  }

  get isComparison() {
    return this.plans.length > 1;
  }

  redraw() {
    for (const view of this.views) view.redraw();
  }

  readColours() {
    const palette = new Palette(this.regionNames);
    for (const view of this.views ?? []) view.palette = palette;
    for (const shown of document.querySelectorAll('.swatch[data-region]')) shown.style.background = palette.region(shown.dataset.region);
    this.palette = palette;
    this.redraw();
  }

  regionSwatch(name) {
    const made = swatch(this.palette.region(name));
    made.dataset.region = name;
    return made;
  }

  // ---- what stands on the page

  addPanel(plan, highest) {
    const panel = byId('panel').content.cloneNode(true);
    const heading = `${plan.title}: ${plan.device}, ${plan.precision}, ${plan.layout}`;
    panel.querySelector('h2').textContent = this.isComparison ? `${plan.letter}. ${heading}` : heading;
    const canvas = panel.querySelector('canvas');
    canvas.setAttribute('aria-label', `Map of ${plan.title}: addresses of the transient zone over the nodes of a program`);
    byId('panels').append(panel);
    const view = new MapView(canvas, plan, highest);
    this.listenToPointer(view);
    canvas.addEventListener('keydown', (event) => this.onKey(view, event));
    canvas.addEventListener('blur', () => this.point(view, -1));
    return view;
  }

  addFacts() {
    const columns = this.plans.map((plan) => new Map(plan.facts().map((fact) => [fact[0], fact])));
    for (const [name, value, text] of columns[0].values()) {
      const card = element('div'), other = columns[1]?.get(name);
      card.append(element('dt', name), element('dd', other ? `A ${text(value)}` : text(value)));
      if (other) card.append(element('dd', `B ${text(other[1])}`), difference('dd', value, other[1], text));
      byId('facts').append(card);
    }
  }

  addPrograms() {
    const common = this.plans[0].programs.filter((p) => this.plans.every((plan) => plan.programs.some((q) => q.name === p.name)));
    for (const {name} of common) {
      const label = element('label'), radio = element('input');
      radio.type = 'radio';
      radio.name = 'program';
      radio.value = name;
      radio.checked = name === this.plans[0].programs[0].name;
      radio.addEventListener('change', () => this.showProgram(name));
      label.append(radio, ` ${programText(name)}`);
      byId('programs').append(label);
    }
  }

  addLegend() {
    for (const name of this.regionNames) {
      const label = element('label'), box = element('input');
      box.type = 'checkbox';
      box.name = 'region';
      box.value = name;
      box.checked = true;
      box.addEventListener('change', () => this.filter());
      label.append(box, ' ', this.regionSwatch(name), name);
      byId('legend').append(label);
    }
  }

  addRegions() {
    const heads = this.isComparison ?
        ['region', ...this.plans.flatMap((p) => [`${p.letter} tensors`, `${p.letter} bytes`]), 'difference'] :
        ['region', 'tensors', 'base', 'bytes', 'size', 'where'];
    const row = element('tr');
    for (const head of heads) row.append(element('th', head));
    byId('regions').append(row);
    const empty = [], others = this.plans.map((plan) => new Map(plan.regions.map((r) => [r.name, r])));
    for (const name of new Set(this.plans.flatMap((plan) => plan.regions.map((r) => r.name)))) {
      const regions = others.map((other) => other.get(name) ?? {name, base: 0, bytes: 0, tensors: 0});
      if (regions.every((r) => r.bytes === 0)) empty.push(name);
      else byId('regions').append(this.regionRow(regions));
    }
    if (this.isComparison) byId('regions').append(this.totalRow());
    byId('empty-regions').textContent = `Off or empty: ${empty.join(', ') || 'none'}. ` +
        (this.plans.some((p) => p.isPacked) ? 'Regions in the zone share bytes: theirs are the sums of their slots, which exceed the zone.' : '');
  }

  regionRow(regions) {
    const row = element('tr'), name = element('td'), [a, b] = regions;
    if (this.palette.region(a.name)) name.append(this.regionSwatch(a.name));
    name.append(a.name);
    const cells = this.isComparison ?
        regions.flatMap((r) => [countText(r.tensors), bytesText(r.bytes)]) :
        [countText(a.tensors), countText(a.base), countText(a.bytes), bytesText(a.bytes), this.plans[0].zoneRegions.has(a.name) ? 'zone' : 'persistent'];
    row.append(name, ...cells.map((text) => element('td', text)));
    if (this.isComparison) row.append(difference('td', a.bytes, b.bytes));
    return row;
  }

  totalRow() {
    const row = element('tr'), [a, b] = this.plans;
    row.append(element('th', 'arena'));
    for (const plan of this.plans) row.append(element('th', countText(plan.tensors.length)), element('th', bytesText(plan.total_bytes)));
    row.append(difference('th', a.total_bytes, b.total_bytes));
    return row;
  }

  addTools() {
    byId('tools').addEventListener('submit', (event) => event.preventDefault());
    byId('search').addEventListener('input', () => this.search());
    const middle = (view, factor) => view.zoom(view.map.left + view.map.width / 2, view.map.top + view.map.height / 2, factor, factor);
    byId('zoom-in').addEventListener('click', () => this.views.forEach((view) => middle(view, .5)));
    byId('zoom-out').addEventListener('click', () => this.views.forEach((view) => middle(view, 2)));
    byId('zoom-reset').addEventListener('click', () => this.views.forEach((view) => view.reset()));
    document.addEventListener('keydown', (event) => {
      if (event.key !== '/' || event.target === byId('search')) return;
      event.preventDefault();
      byId('search').focus();
    });
  }

  // ---- program, search, filter

  showProgram(name) {
    for (const view of this.views) view.setProgram(view.plan.program(name));
    this.hideTip();
    this.search();
  }

  search() {
    const wanted = byId('search').value.trim().toLowerCase(), found = [];
    for (const view of this.views) {
      view.matches = wanted === '' ? null : new Set();
      if (wanted === '') continue;
      view.boxes.tensors.forEach((t, i) => {
        if (![t.name, t.region, t.dtype].some((text) => text.toLowerCase().includes(wanted))) return;
        view.matches.add(i);
        found.push([view, i]);
      });
    }
    this.redraw();
    if (wanted === '') this.list('Tensors', 'Search, or click the peak of the curve, to list tensors.', []);
    else this.list(`Matching “${wanted}”`, `${countText(found.length)} in the zone, the largest first`, found);
  }

  filter() {
    const hidden = new Set([...document.querySelectorAll('input[name=region]')].filter((box) => !box.checked).map((box) => box.value));
    for (const view of this.views) view.hidden = hidden;
    this.redraw();
  }

  /** Lists boxes, given as pairs of a view and a place, the largest first. */
  list(title, note, entries) {
    const MOST = 200;
    const bytes = ([view, i]) => view.boxes.tensors[i].slot_bytes;
    entries.sort((a, b) => bytes(b) - bytes(a));
    const section = byId('list');
    section.querySelector('h2').textContent = title;
    section.querySelector('p').textContent = entries.length > MOST ? `${note}; the first ${MOST}` : note;
    section.querySelector('ol').replaceChildren(...entries.slice(0, MOST).map((entry) => this.listed(...entry)));
  }

  listed(view, i) {
    const t = view.boxes.tensors[i], item = element('li'), button = element('button');
    button.type = 'button';
    button.append(this.regionSwatch(t.region), element('span', this.isComparison ? `${view.plan.letter}: ${t.name}` : t.name), element('span', bytesText(t.slot_bytes)));
    button.addEventListener('click', () => {
      view.frame(i);
      this.keep(view, i);
    });
    item.append(button);
    return item;
  }

  /** Lists who is alive while a node runs. */
  listAlive(view, node) {
    const {name, live_bytes: bytes} = view.program.nodes[node];
    const alive = view.boxes.aliveAt(node);
    this.list(`Alive at node ${node}, ${name}`, `${countText(alive.length)} tensors, ${exactBytesText(bytes)}; bytes taken over in place count once`,
        alive.map((i) => [view, i]));
  }

  // ---- what is pointed at and what is kept

  point(view, i, at = null) {
    if (view.focused !== i) {
      view.focused = i;
      view.redraw();
    }
    if (i < 0) return this.hideTip();
    this.showTip(described(view, i), at ?? this.onScreen(view, i));
  }

  onScreen(view, i) {
    const box = view.canvas.getBoundingClientRect(), [x, y] = view.centre(i);
    return [box.left + x, box.top + y];
  }

  keep(view, i) {
    for (const other of this.views) {
      other.kept = other === view ? i : -1;
      other.redraw();
    }
    if (i < 0) return;
    byId('details').querySelector('.body').replaceChildren(...described(view, i));
  }

  showTip(content, [x, y]) {
    const tip = byId('tip');
    tip.replaceChildren(...content);
    tip.hidden = false;
    const MARGIN = 14;
    const left = x + MARGIN + tip.offsetWidth > innerWidth ? x - MARGIN - tip.offsetWidth : x + MARGIN;
    const top = y + MARGIN + tip.offsetHeight > innerHeight ? y - MARGIN - tip.offsetHeight : y + MARGIN;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  hideTip() {
    byId('tip').hidden = true;
  }

  // ---- pointer

  listenToPointer(view) {
    const {canvas} = view;
    let from = null, moved = 0;
    canvas.addEventListener('pointerdown', (event) => {
      from = [event.offsetX, event.offsetY];
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (from === null) return this.onHover(view, event);
      view.pan(event.offsetX - from[0], event.offsetY - from[1]);
      moved += Math.abs(event.offsetX - from[0]) + Math.abs(event.offsetY - from[1]);
      from = [event.offsetX, event.offsetY];
      this.hideTip();
    });
    canvas.addEventListener('pointerup', (event) => {
      const SLACK_PIXELS = 4;
      if (from !== null && moved < SLACK_PIXELS) this.onClick(view, event.offsetX, event.offsetY);
      from = null;
    });
    canvas.addEventListener('pointercancel', () => from = null);
    canvas.addEventListener('pointerleave', () => {
      view.column = null;
      this.point(view, -1);
      view.redraw();
    });
    canvas.addEventListener('wheel', (event) => this.onWheel(view, event), {passive: false});
  }

  onHover(view, event) {
    const {offsetX: x, offsetY: y, clientX, clientY} = event;
    const isOver = (view.isIn(view.map, x, y) || view.isIn(view.band, x, y) || view.isIn(view.curve, x, y));
    view.column = isOver ? view.nodeAt(x) : null;
    view.redraw();
    if (view.isIn(view.map, x, y)) return this.point(view, view.boxAt(x, y), [clientX, clientY]);
    this.point(view, -1);
    if (!isOver) return;
    const {name, part, live_bytes: bytes} = view.program.nodes[view.column];
    this.showTip([element('p', `node ${view.column}, ${name}`, 'name'), element('div', `${part}; alive: ${exactBytesText(bytes)}`)], [clientX, clientY]);
  }

  onClick(view, x, y) {
    if (view.isIn(view.map, x, y)) return this.keep(view, view.boxAt(x, y));
    if (!view.isIn(view.curve, x, y)) return;
    const [peakX, peakY] = view.peakPoint(), NEAR_PIXELS = 12;
    const isPeak = Math.hypot(x - peakX, y - peakY) < NEAR_PIXELS;
    this.listAlive(view, isPeak ? view.program.peak.node : view.nodeAt(x));
  }

  onWheel(view, event) {
    event.preventDefault();
    // Some systems turn the wheel sideways while Shift is held.
    const factor = 2 ** (clamp(event.deltaY || event.deltaX, -120, 120) / 240);
    const isOverCurve = !view.isIn(view.map, event.offsetX, event.offsetY);
    view.zoom(event.offsetX, event.offsetY, event.altKey ? 1 : factor, event.shiftKey || isOverCurve ? 1 : factor);
    this.hideTip();
  }

  // ---- keys

  onKey(view, event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.keyActions(view, event.shiftKey)[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  keyActions(view, isShifted) {
    const STEP_PIXELS = 60;
    const move = (dx, dy) => () => isShifted ? view.pan(-dx * STEP_PIXELS, dy * STEP_PIXELS) : this.moveFocus(view, dx, dy);
    const zoom = (factor) => () => {
      const {map} = view, at = view.focused >= 0 ? view.centre(view.focused) : [map.left + map.width / 2, map.top + map.height / 2];
      view.zoom(...at, factor, factor);
    };
    return {
      'ArrowLeft': move(-1, 0), 'ArrowRight': move(1, 0), 'ArrowUp': move(0, 1), 'ArrowDown': move(0, -1),
      '+': zoom(.5), '=': zoom(.5), '-': zoom(2), '_': zoom(2),
      '0': () => view.reset(),
      'Enter': () => this.keep(view, view.focused), ' ': () => this.keep(view, view.focused),
      'Escape': () => {
        this.keep(view, -1);
        this.point(view, -1);
      },
      'f': () => view.focused >= 0 && view.frame(view.focused),
      'p': () => this.listAlive(view, view.program.peak.node),
    };
  }

  /** To the next tensor along the schedule (dx) or in address (dy); to the largest at the peak at first. */
  moveFocus(view, dx, dy) {
    const next = view.focused < 0 ? this.largestAt(view, view.program.peak.node) : this.neighbour(view, dx, dy);
    if (next < 0) return;
    view.reveal(next);
    this.point(view, next);
    const {name, lines} = describe(view.plan, view.program, view.boxes, next);
    byId('spoken').textContent = [name, ...lines.map((line) => line.join(' '))].join('; ');
  }

  largestAt(view, x) {
    const size = (i) => view.boxes.tensors[i].slot_bytes;
    return view.boxes.aliveAt(x).filter((i) => view.isShown(i)).reduce((best, i) => best < 0 || size(i) > size(best) ? i : best, -1);
  }

  neighbour(view, dx, dy) {
    const {boxes, focused} = view, {left, right, bottom, top, tensors} = boxes;
    const middle = (i) => (bottom[i] + top[i]) / 2;
    let best = -1, least = Infinity;
    for (let i = 0; i < tensors.length; ++i) {
      if (i === focused || !view.isShown(i)) continue;
      const along = dx > 0 ? left[i] - right[focused] : dx < 0 ? left[focused] - right[i] : dy > 0 ? bottom[i] - top[focused] : bottom[focused] - top[i];
      if (along < 0) continue;
      // Beside it: alive together for up and down, nearest in address for left and right.
      const areTogether = left[i] < right[focused] && left[focused] < right[i];
      if (dy !== 0 && !areTogether) continue;
      const distance = dy !== 0 ? along : along / view.program.nodes.length + 4 * Math.abs(middle(i) - middle(focused)) / view.highest;
      if (distance < least) best = i, least = distance;
    }
    return best;
  }
}

new Page(JSON.parse(byId('plans').textContent).map((one) => new Plan(one)));
