'use strict';
// What a plan means: its zone, its programs, its tensors as boxes of bytes by nodes.

/** 1536 → "1.50 KiB". */
function bytesText(bytes) {
  let value = Math.abs(bytes), unit = 0;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  while (value >= 1024 && unit < units.length - 1) value /= 1024, ++unit;
  return `${bytes < 0 ? '−' : ''}${unit === 0 ? value : value.toFixed(2)} ${units[unit]}`;
}

function countText(count) {
  return count.toLocaleString('en');
}

function exactBytesText(bytes) {
  return bytes < 1024 ? `${bytes} B` : `${bytesText(bytes)} (${countText(bytes)})`;
}

/** A change from a to b, of bytes or of `text(value)`. */
function differenceText(a, b, text = bytesText) {
  if (a === b) return 'same';
  const share = a === 0 ? '' : ` (${b > a ? '+' : '−'}${(100 * Math.abs(b - a) / a).toFixed(1)} %)`;
  return `${b > a ? '+' : '−'}${text(Math.abs(b - a))}${share}`;
}

/** Tensors of the zone that one program needs, as boxes. Columns of numbers, so that 20,000 draw quickly. */
class Boxes {
  constructor(plan, program) {
    const key = program.name;
    this.tensors = plan.tensors.filter((t) => plan.isInZone(t) && (t.always || t[key]))
        .sort((a, b) => plan.regionOrder.get(a.region) - plan.regionOrder.get(b.region) || b.slot_bytes - a.slot_bytes);
    const count = this.tensors.length;
    this.place = new Map(this.tensors.map((t, i) => [t.id, i]));
    this.left = new Float64Array(count);
    this.right = new Float64Array(count);
    this.bottom = new Float64Array(count);
    this.top = new Float64Array(count);
    this.tensors.forEach((t, i) => {
      const [first, last] = t.always ? [0, program.nodes.length - 1] : t[key];
      // Who takes bytes over does so within a node: the two boxes meet in its middle.
      const giver = plan.byId.get(t.in_place_of), taker = plan.takerOf.get(t.id);
      this.left[i] = first + (giver?.[key]?.[1] === first ? .5 : 0);
      this.right[i] = last + (taker?.[key]?.[0] === last ? .5 : 1);
      this.bottom[i] = t.offset - plan.zone.base;
      this.top[i] = this.bottom[i] + t.slot_bytes;
    });
  }

  /** Places of the boxes that share bytes with box i, in the order of the schedule. */
  sharing(i) {
    const others = [];
    for (let j = 0; j < this.tensors.length; ++j)
      if (j !== i && this.bottom[j] < this.top[i] && this.bottom[i] < this.top[j]) others.push(j);
    return others.sort((a, b) => this.left[a] - this.left[b]);
  }

  /** Places of the boxes alive while a node runs, with both of two that meet in it. */
  aliveAt(node) {
    const alive = [];
    for (let i = 0; i < this.tensors.length; ++i)
      if (this.left[i] < node + 1 && node < this.right[i]) alive.push(i);
    return alive;
  }
}

class Plan {
  constructor({title, plan}) {
    Object.assign(this, plan);
    this.title = title;
    this.regionOrder = new Map(plan.regions.map((r, i) => [r.name, i]));
    this.byId = new Map(plan.tensors.map((t) => [t.id, t]));
    this.takerOf = new Map(plan.tensors.filter((t) => t.in_place_of !== null).map((t) => [t.in_place_of, t]));
    this.isPacked = plan.zone !== null;
    this.transientRegions = new Set(plan.tensors.filter((t) => !t.always).map((t) => t.region));
    this.zone ??= this.linearZone();
    this.zoneRegions = new Set(plan.tensors.filter((t) => this.isInZone(t)).map((t) => t.region));
    this.persistentBytes = this.isPacked ? plan.total_bytes - this.zone.bytes :
        plan.total_bytes - sum(plan.tensors.filter((t) => this.isInZone(t)), (t) => t.slot_bytes);
    this.boxesOf = new Map();
  }

  /** Without sharing, from the lowest transient byte to the highest. */
  linearZone() {
    let base = this.total_bytes, end = 0;
    for (const t of this.tensors) {
      if (!this.transientRegions.has(t.region)) continue;
      base = Math.min(base, t.offset);
      end = Math.max(end, t.offset + t.slot_bytes);
    }
    const needed = Math.max(...this.programs.map((p) => p.nodes[p.peak.node].live_bytes));
    return {base: Math.min(base, end), bytes: Math.max(0, end - base), lower_bound: needed};
  }

  isInZone(tensor) {
    if (!this.isPacked) return this.transientRegions.has(tensor.region);
    return tensor.offset >= this.zone.base && tensor.offset + tensor.slot_bytes <= this.zone.base + this.zone.bytes;
  }

  boxes(program) {
    if (!this.boxesOf.has(program)) this.boxesOf.set(program, new Boxes(this, program));
    return this.boxesOf.get(program);
  }

  program(name) {
    return this.programs.find((p) => p.name === name) ?? this.programs[0];
  }

  /** How far the zone is above what no layout can go below, as a fraction. */
  overshoot() {
    return this.zone.lower_bound === 0 ? 0 : this.zone.bytes / this.zone.lower_bound - 1;
  }

  /** What people are told first: a name, a value, and what makes text of such a value. */
  facts() {
    const facts = [
      ['arena', this.total_bytes, bytesText],
      [this.isPacked ? 'transient zone' : 'transient, without sharing', this.zone.bytes, bytesText],
      [this.isPacked ? 'lower bound' : 'largest alive at once', this.zone.lower_bound, bytesText],
      ['overshoot', 100 * this.overshoot(), (percent) => `${percent.toFixed(3)} %`],
      ['persistent', this.persistentBytes, bytesText],
    ];
    for (const p of this.programs) facts.push([`peak of ${programText(p.name)}`, p.nodes[p.peak.node].live_bytes, bytesText]);
    facts.push(['tensors', this.tensors.length, countText], ['parameters', this.parameters, countText]);
    return facts;
  }
}

function sum(items, value) {
  return items.reduce((total, item) => total + value(item), 0);
}

function programText(name) {
  return {train: 'training', eval: 'evaluation'}[name] ?? name;
}

/** What is said about box i: pairs of a term and its text. */
function describe(plan, program, boxes, i) {
  const t = boxes.tensors[i];
  const node = (n) => `${n} ${program.nodes[n].name}`;
  const lines = [
    ['region', `${t.region}, ${t.dtype}`],
    ['shape', `[${t.shape.join(', ')}]`],
    ['bytes', exactBytesText(t.slot_bytes)],
    ['offset', `${exactBytesText(t.offset)}, in the zone ${bytesText(boxes.bottom[i])}`],
  ];
  if (t.always) {
    lines.push(['needed', 'through the whole step and between steps']);
  } else {
    lines.push(['first user', node(t[program.name][0])], ['last user', node(t[program.name][1])]);
  }
  const giver = plan.byId.get(t.in_place_of), taker = plan.takerOf.get(t.id);
  if (giver) lines.push(['in place of', giver.name]);
  if (taker) lines.push(['handed on to', taker.name]);
  const others = boxes.sharing(i).filter((j) => boxes.tensors[j] !== giver && boxes.tensors[j] !== taker);
  if (others.length > 0) lines.push(['shares bytes', sharingText(boxes, i, others)]);
  return {name: t.name, lines};
}

function sharingText(boxes, i, others) {
  const names = (list) => list.map((j) => boxes.tensors[j].name).join(', ');
  const before = others.filter((j) => boxes.right[j] <= boxes.left[i]);
  const after = others.filter((j) => boxes.left[j] >= boxes.right[i]);
  const parts = [`with ${others.length} other${others.length === 1 ? '' : 's'}`];
  const SHOWN = 2;
  if (before.length > 0) parts.push(`last before: ${names(before.slice(-SHOWN).reverse())}`);
  if (after.length > 0) parts.push(`next after: ${names(after.slice(0, SHOWN))}`);
  return parts.join('; ');
}
