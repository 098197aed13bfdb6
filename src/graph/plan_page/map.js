// How a plan is drawn: addresses over the schedule, the parts of the step, the curve of live bytes.

const GUTTER = 78, TOP = 6, RIGHT = 10, BAND = 20, AXIS = 18, GAP = 8;

/** Steps of a power of two, about `most` of them over `span`. */
function tickStep(span, most) {
  return Math.max(1, 2 ** Math.ceil(Math.log2(span / most)));
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/** An address on an axis: exact where rounding would make neighbours alike. */
function addressText(bytes, step) {
  return bytesText(bytes) === bytesText(bytes + step) ? countText(bytes) : bytesText(bytes);
}

/** `text` cut to a width, with an ellipsis; empty when nothing fits. */
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const per = context.measureText(text).width / text.length;
  const length = Math.floor(width / per) - 1;
  return length < 4 ? '' : text.slice(0, length) + '…';
}

/** Colours of the page's style as the canvas needs them. */
class Palette {
  constructor(regionNames) {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ['surface', 'ink', 'quiet', 'line', 'accent', 'mark', 'curve', 'curve-fill']) this[name] = read(name);
    const COLOURS = 9;
    this.regions = new Map(regionNames.map((name, i) => [name, read(`region-${i % COLOURS}`)]));
  }

  region(name) {
    return this.regions.get(name);
  }

  /** Black or white, whichever has more contrast with a colour (#rrggbb) by WCAG 2's relative luminance. */
  static textOn(colour) {
    const linear = [1, 3, 5].map((at) => {
      const part = parseInt(colour.slice(at, at + 2), 16) / 255;
      return part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4;
    });
    const luminance = .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
    return luminance + .05 > Math.sqrt(1.05 * .05) ? '#000' : '#fff';
  }
}

/**
 * One plan's canvas. Coordinates: x in nodes, y in bytes from the zone's base, both growing away from the
 * lower left corner. The page sets `program`, `palette`, `hidden`, `matches`, `focused` and calls redraw().
 */
class MapView {
  constructor(canvas, plan, highest) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    this.plan = plan;
    this.highest = highest;  // bytes: shared by plans side by side, so that they compare
    this.hidden = new Set();
    this.matches = null;
    this.focused = -1;
    this.kept = -1;
    this.column = null;
    this.isAsked = false;
    new ResizeObserver(() => this.redraw()).observe(canvas);
  }

  setProgram(program) {
    this.program = program;
    this.boxes = this.plan.boxes(program);
    this.focused = this.kept = -1;
    this.reset();
  }

  reset() {
    this.view = {x0: 0, x1: this.program.nodes.length, y0: 0, y1: this.highest};
    this.redraw();
  }

  redraw() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.draw();
    });
  }

  // ---- geometry

  layOut() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const scale = window.devicePixelRatio;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    const plotWidth = width - GUTTER - RIGHT;
    const free = height - TOP - BAND - AXIS - GAP;
    const curveHeight = Math.round(free * .26);
    this.map = {left: GUTTER, top: TOP, width: plotWidth, height: free - curveHeight};
    this.band = {left: GUTTER, top: TOP + this.map.height, width: plotWidth, height: BAND};
    this.curve = {left: GUTTER, top: this.band.top + BAND + GAP, width: plotWidth, height: curveHeight};
    this.canvas.dataset.view = JSON.stringify({map: this.map, band: this.band, curve: this.curve, ...this.view});
  }

  px(x) {
    return this.map.left + (x - this.view.x0) / (this.view.x1 - this.view.x0) * this.map.width;
  }
  py(y) {
    return this.map.top + (this.view.y1 - y) / (this.view.y1 - this.view.y0) * this.map.height;
  }
  curvePy(bytes) {
    return this.curve.top + this.curve.height * (1 - bytes / (this.highest * 1.08));
  }
  xAt(px) {
    return this.view.x0 + (px - this.map.left) / this.map.width * (this.view.x1 - this.view.x0);
  }
  yAt(py) {
    return this.view.y1 - (py - this.map.top) / this.map.height * (this.view.y1 - this.view.y0);
  }
  isIn(area, px, py) {
    return px >= area.left && px < area.left + area.width && py >= area.top && py < area.top + area.height;
  }
  nodeAt(px) {
    return clamp(Math.floor(this.xAt(px)), 0, this.program.nodes.length - 1);
  }

  isShown(i) {
    return !this.hidden.has(this.boxes.tensors[i].region);
  }

  /** The box under a point, the smallest of several; −1 for none. A box of less than three pixels is three. */
  boxAt(px, py) {
    const {left, right, bottom, top} = this.boxes;
    const x = this.xAt(px), y = this.yAt(py);
    const nearX = this.xAt(px + 1.5) - x, nearY = y - this.yAt(py + 1.5);
    let best = -1, least = Infinity;
    for (let i = 0; i < left.length; ++i) {
      if (x < left[i] - nearX || x >= right[i] + nearX || y < bottom[i] - nearY || y >= top[i] + nearY) continue;
      const isInside = x >= left[i] && x < right[i] && y >= bottom[i] && y < top[i];
      const size = (right[i] - left[i]) * (top[i] - bottom[i]);
      const isTiny = top[i] - bottom[i] < 2 * nearY || right[i] - left[i] < 2 * nearX;
      if ((isInside || isTiny) && size < least && this.isShown(i)) best = i, least = size;
    }
    return best;
  }

  /** The middle of what is visible of a box, in pixels of the canvas. */
  centre(i) {
    const {left, right, bottom, top} = this.boxes;
    const x = (Math.max(left[i], this.view.x0) + Math.min(right[i], this.view.x1)) / 2;
    const y = (Math.max(bottom[i], this.view.y0) + Math.min(top[i], this.view.y1)) / 2;
    return [this.px(x), this.py(y)];
  }

  // ---- zoom and pan

  /** Scales around a point that stays where it is; a factor below 1 comes closer. */
  zoom(px, py, factorX, factorY) {
    const x = this.xAt(px), y = this.yAt(py), v = this.view;
    this.look(x + (v.x0 - x) * factorX, x + (v.x1 - x) * factorX, y + (v.y0 - y) * factorY, y + (v.y1 - y) * factorY);
  }

  pan(dx, dy) {
    const v = this.view;
    const x = dx / this.map.width * (v.x1 - v.x0), y = dy / this.map.height * (v.y1 - v.y0);
    this.look(v.x0 - x, v.x1 - x, v.y0 + y, v.y1 + y);
  }

  /** Shows a section of the map, kept inside it and not closer than a node by an alignment. */
  look(x0, x1, y0, y1) {
    const within = (low, high, end, least) => {
      const span = clamp(high - low, Math.min(least, end), end);
      const start = clamp((low + high - span) / 2, 0, end - span);
      return [start, start + span];
    };
    const ALIGNMENT_BYTES = 256;
    const v = this.view;
    [v.x0, v.x1] = within(x0, x1, this.program.nodes.length, 1);
    [v.y0, v.y1] = within(y0, y1, this.highest, ALIGNMENT_BYTES);
    this.redraw();
  }

  /** Shows a box with room around it. */
  frame(i) {
    const {left, right, bottom, top} = this.boxes;
    const roomX = Math.max(2, right[i] - left[i]), roomY = 1.5 * (top[i] - bottom[i]);
    this.look(left[i] - roomX, right[i] + roomX, bottom[i] - roomY, top[i] + roomY);
  }

  /** Pans as far as needed for a box to be seen. */
  reveal(i) {
    const {left, right, bottom, top} = this.boxes, v = this.view;
    const shift = (low, high, from, to) => (low >= to ? low - to + (to - from) / 4 : high <= from ? high - from - (to - from) / 4 : 0);
    const x = shift(left[i], right[i], v.x0, v.x1), y = shift(bottom[i], top[i], v.y0, v.y1);
    if (x !== 0 || y !== 0) this.look(v.x0 + x, v.x1 + x, v.y0 + y, v.y1 + y);
  }

  // ---- drawing

  draw() {
    if (this.canvas.clientWidth === 0) return;
    this.layOut();
    const c = this.context;
    c.font = '11px system-ui, sans-serif';
    c.fillStyle = this.palette.surface;
    c.fillRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    this.drawAddressAxis();
    this.clipped(this.map, () => this.drawBoxes());
    this.drawParts();
    this.drawCurve();
    this.drawColumn();
    performance.mark('plan drawn');
  }

  clipped(area, paint) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(area.left, area.top, area.width, area.height);
    this.context.clip();
    paint();
    this.context.restore();
  }

  drawAddressAxis() {
    const c = this.context, v = this.view, m = this.map;
    const step = tickStep(v.y1 - v.y0, m.height / 50);
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    for (let y = Math.ceil(v.y0 / step) * step; y <= v.y1; y += step) {
      c.fillStyle = this.palette.line;
      c.fillRect(m.left, Math.round(this.py(y)), m.width, 1);
      c.fillStyle = this.palette.quiet;
      c.fillText(addressText(y, step), m.left - 6, clamp(this.py(y), TOP + 6, m.top + m.height - 6));
    }
    c.strokeStyle = this.palette.quiet;
    c.strokeRect(m.left - .5, m.top - .5, m.width + 1, m.height + 1);
  }

  drawBoxes() {
    const {left, right, bottom, top, tensors} = this.boxes;
    const v = this.view, c = this.context, labels = [];
    let region = null;
    for (let i = 0; i < tensors.length; ++i) {
      if (right[i] <= v.x0 || left[i] >= v.x1 || top[i] <= v.y0 || bottom[i] >= v.y1 || !this.isShown(i)) continue;
      if (tensors[i].region !== region) {  // sorted by region, so that the colour seldom changes
        region = tensors[i].region;
        c.fillStyle = this.palette.region(region);
      }
      const box = this.boxPixels(i);
      const isMatch = this.matches === null || this.matches.has(i);
      c.globalAlpha = isMatch ? 1 : .13;
      c.fillRect(...box);
      if (isMatch && box[2] > 44 && box[3] > 13) labels.push([i, box]);
    }
    c.globalAlpha = 1;
    this.drawLabels(labels);
    this.drawOutlines();
  }

  /** Left, top, width, height: a hairline from its neighbours where there is room, faint where it is thin. */
  boxPixels(i) {
    const {left, right, bottom, top} = this.boxes;
    const x0 = this.px(left[i]), x1 = this.px(right[i]), y0 = this.py(top[i]), y1 = this.py(bottom[i]);
    const THIN = .4;
    const gapX = x1 - x0 > 3 ? .5 : 0, gapY = y1 - y0 > 3 ? .5 : 0;
    return [x0 + gapX, y0 + gapY, Math.max(THIN, x1 - x0 - 2 * gapX), Math.max(THIN, y1 - y0 - 2 * gapY)];
  }

  drawLabels(labels) {
    const c = this.context, m = this.map;
    c.textAlign = 'left';
    c.textBaseline = 'middle';
    for (const [i, [x, y, width, height]] of labels) {
      const from = Math.max(x, m.left), to = Math.min(x + width, m.left + m.width);
      const low = Math.max(y, m.top), high = Math.min(y + height, m.top + m.height);
      const {name, region} = this.boxes.tensors[i];
      c.fillStyle = Palette.textOn(this.palette.region(region));
      c.fillText(fitted(c, name, to - from - 8), from + 4, (low + high) / 2);
    }
  }

  /** What is kept and what is pointed at, and whom they pass bytes to. */
  drawOutlines() {
    const c = this.context;
    for (const i of new Set([this.kept, this.focused])) {
      if (i < 0) continue;
      const [x, y, width, height] = this.boxPixels(i);
      c.strokeStyle = this.palette.surface;
      c.lineWidth = 4;
      c.strokeRect(x, y, width, height);
      c.strokeStyle = this.palette.ink;
      c.lineWidth = 2;
      c.strokeRect(x, y, width, height);
      this.drawPartners(i);
    }
    c.lineWidth = 1;
  }

  drawPartners(i) {
    const c = this.context, t = this.boxes.tensors[i];
    c.setLineDash([4, 3]);
    for (const partner of [this.plan.byId.get(t.in_place_of), this.plan.takerOf.get(t.id)]) {
      const place = partner && this.boxes.place.get(partner.id);
      if (place !== undefined) c.strokeRect(...this.boxPixels(place));
    }
    c.setLineDash([]);
  }

  /** Forward, backward …, and the nodes' names where there is room. */
  drawParts() {
    const {nodes} = this.program, v = this.view;
    this.clipped(this.band, () => {
      if (this.map.width / (v.x1 - v.x0) >= 60) {
        for (let n = Math.floor(v.x0); n < v.x1; ++n) this.drawBandPiece(n, n + 1, nodes[n].name, n);
        return;
      }
      for (let n = 0, end, part = 0; n < nodes.length; n = end, ++part) {
        for (end = n; end < nodes.length && nodes[end].part === nodes[n].part; ++end);
        this.drawBandPiece(n, end, nodes[n].part, part);
      }
    });
  }

  drawBandPiece(first, end, text, place) {
    const c = this.context, b = this.band;
    const from = Math.max(this.px(first), b.left), to = Math.min(this.px(end), b.left + b.width);
    if (to <= from) return;
    c.fillStyle = this.palette[place % 2 === 0 ? 'curve-fill' : 'line'];
    c.fillRect(this.px(first), b.top + 2, this.px(end) - this.px(first), b.height - 4);
    c.fillStyle = this.palette.ink;
    c.textAlign = 'center';
    c.textBaseline = 'middle';
    c.fillText(fitted(c, text, to - from - 4), (from + to) / 2, b.top + b.height / 2);
  }

  drawCurve() {
    const c = this.context, a = this.curve, p = this.palette;
    c.textBaseline = 'middle';
    c.textAlign = 'right';
    c.fillStyle = p.quiet;
    const step = tickStep(this.highest, a.height / 34);
    for (let y = 0; y <= this.highest * 1.08; y += step) c.fillText(bytesText(y), a.left - 6, this.curvePy(y));
    this.clipped(a, () => this.drawLiveBytes());
    c.fillStyle = p.quiet;
    c.fillRect(a.left, a.top + a.height, a.width, 1);
    this.drawNodeAxis();
    this.drawBounds();
    this.drawPeak();
  }

  /** Of several nodes in one pixel, the one with the most. */
  drawLiveBytes() {
    const c = this.context, {nodes} = this.program, a = this.curve;
    const from = Math.max(0, Math.floor(this.view.x0)), to = Math.min(nodes.length, Math.ceil(this.view.x1));
    const floor = a.top + a.height;
    c.beginPath();
    c.moveTo(this.px(from), floor);
    for (let n = from; n < to;) {
      const start = this.px(n);
      let most = 0;
      do most = Math.max(most, nodes[n++].live_bytes);
      while (n < to && this.px(n) - start < 1);
      c.lineTo(start, this.curvePy(most));
      c.lineTo(this.px(n), this.curvePy(most));
    }
    c.lineTo(this.px(to), floor);
    c.fillStyle = this.palette['curve-fill'];
    c.fill();
    c.strokeStyle = this.palette.curve;
    c.lineWidth = 1.5;
    c.stroke();
    c.lineWidth = 1;
  }

  drawNodeAxis() {
    const c = this.context, v = this.view, a = this.curve;
    const step = tickStep(v.x1 - v.x0, a.width / 60);
    c.textAlign = 'center';
    c.textBaseline = 'top';
    c.fillStyle = this.palette.quiet;
    for (let n = Math.ceil(v.x0 / step) * step; n < v.x1; n += step) {
      const isFirst = n === Math.ceil(v.x0 / step) * step;
      c.fillText(isFirst ? `node ${n}` : n, clamp(this.px(n + .5), a.left + 14, a.left + a.width - 10), a.top + a.height + 4);
    }
  }

  /** The zone's size, drawn through, and the bound that no layout goes below, dashed. */
  drawBounds() {
    const {bytes, lower_bound: bound} = this.plan.zone;
    const names = this.plan.isPacked ? ['zone', 'lower bound'] : ['transient', 'largest alive at once'];
    const areOne = Math.abs(this.curvePy(bytes) - this.curvePy(bound)) < 13;
    this.drawLevel(bytes, [], areOne && bytes === bound ? `${names[0]} = ${names[1]}` : names[0], 'bottom');
    if (bytes !== bound) this.drawLevel(bound, [5, 4], names[1], areOne ? 'top' : 'bottom');
  }

  drawLevel(bytes, dash, name, baseline) {
    const c = this.context, a = this.curve, y = Math.round(this.curvePy(bytes)) + .5;
    c.strokeStyle = this.palette.accent;
    c.setLineDash(dash);
    c.beginPath();
    c.moveTo(a.left, y);
    c.lineTo(a.left + a.width, y);
    c.stroke();
    c.setLineDash([]);
    c.fillStyle = this.palette.accent;
    c.textAlign = 'left';
    c.textBaseline = baseline;
    c.fillText(`${name} ${bytesText(bytes)}`, a.left + 6, y + (baseline === 'top' ? 2 : -1));
  }

  peakPoint() {
    const {peak, nodes} = this.program;
    return [this.px(peak.node + .5), this.curvePy(nodes[peak.node].live_bytes)];
  }

  drawPeak() {
    const c = this.context, {peak, nodes} = this.program, [x, y] = this.peakPoint();
    if (!this.isIn(this.curve, x, y)) return;
    c.fillStyle = this.palette.mark;
    c.beginPath();
    c.arc(x, y, 4.5, 0, 7);
    c.fill();
    const text = `peak ${bytesText(nodes[peak.node].live_bytes)}, ${nodes[peak.node].name}`;
    const isRight = x + 10 + c.measureText(text).width < this.curve.left + this.curve.width;
    c.textAlign = isRight ? 'left' : 'right';
    c.textBaseline = 'top';
    c.strokeStyle = this.palette['curve-fill'];
    c.lineWidth = 4;
    c.lineJoin = 'round';
    c.strokeText(text, x + (isRight ? 9 : -9), y + 5);
    c.fillText(text, x + (isRight ? 9 : -9), y + 5);
    c.lineWidth = 1;
    c.globalAlpha = .55;
    c.fillRect(x, this.map.top, 1, this.map.height);
    c.globalAlpha = 1;
  }

  /** The node under the pointer, through map and curve. */
  drawColumn() {
    if (this.column === null || this.column < this.view.x0 - 1 || this.column > this.view.x1) return;
    const c = this.context, m = this.map;
    c.globalAlpha = .12;
    c.fillStyle = this.palette.ink;
    const from = Math.max(this.px(this.column), m.left);
    const width = Math.max(1, Math.min(this.px(this.column + 1), m.left + m.width) - from);
    c.fillRect(from, m.top, width, this.curve.top + this.curve.height - m.top);
    c.globalAlpha = 1;
  }
}
