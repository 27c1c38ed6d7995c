// A layered drawing of a directed graph (Sugiyama, Tagawa, Toda 1981): break cycles, longest-path
// layers, a dummy in each layer that an edge crosses, barycentre sweeps, then positions that are the
// closest to their neighbours among those without overlap (isotonic regression). No document is
// needed here.

const GAP_X = 18;
const GAP_Y = 30;
const SWEEPS = 6;

/**
 * Place boxes. `items`: {id, width, height, first?, last?} (`first` and `last` keep an item in the
 * top or bottom layer); `edges`: {from, to, fromX?, toX?} with ids and offsets from the box's left.
 * Returns {width, height, at: Map id -> {x, y}, lines: per edge a list of [x, y]}.
 */
function layeredLayout(items, edges) {
  const cells = items.map((item) => ({ ...item, layer: 0, x: 0, up: [], down: [] }));
  const byId = new Map(cells.map((cell) => [cell.id, cell]));
  const links = edges.map((edge) => ({
    ...edge,
    a: byId.get(edge.from),
    b: byId.get(edge.to),
    back: false,
  }));
  breakCycles(cells, links);
  assignLayers(cells, links);
  const chains = addDummies(cells, links);
  const layers = orderLayers(cells);
  const width = placeAcross(layers);
  const tops = [];
  let height = 0;
  for (const layer of layers) {
    tops.push(height);
    height += Math.max(...layer.map((cell) => cell.height)) + GAP_Y;
  }
  height = Math.max(0, height - GAP_Y);
  for (const cell of cells) cell.y = tops[cell.layer];
  const at = new Map(
    items.map((item) => [item.id, { x: byId.get(item.id).x, y: byId.get(item.id).y }]),
  );
  const lines = links.map((link, index) => edgeLine(link, chains[index], layers));
  return { width, height, at, lines };
}

/** Turn the edges that close a cycle around, depth first in the order of the items. */
function breakCycles(cells, links) {
  const out = new Map(cells.map((cell) => [cell, []]));
  for (const link of links) out.get(link.a).push(link);
  const state = new Map();
  for (const root of cells) {
    if (state.has(root)) continue;
    state.set(root, "open");
    const stack = [[root, 0]];
    while (stack.length) {
      const top = stack[stack.length - 1];
      const link = out.get(top[0])[top[1]++];
      if (!link) {
        state.set(top[0], "done");
        stack.pop();
      } else if (link.a === link.b || state.get(link.b) === "open") link.back = true;
      else if (!state.has(link.b)) {
        state.set(link.b, "open");
        stack.push([link.b, 0]);
      }
    }
  }
}

function upper(link) {
  return link.back ? link.b : link.a;
}

function lower(link) {
  return link.back ? link.a : link.b;
}

/** Longest path from the top; then sources sink to just above their first reader. */
function assignLayers(cells, links) {
  const into = new Map(cells.map((cell) => [cell, []]));
  const out = new Map(cells.map((cell) => [cell, []]));
  for (const link of links) {
    if (upper(link) === lower(link)) continue;
    into.get(lower(link)).push(upper(link));
    out.get(upper(link)).push(lower(link));
  }
  const waiting = new Map(cells.map((cell) => [cell, into.get(cell).length]));
  const ready = cells.filter((cell) => !waiting.get(cell));
  const order = [];
  while (ready.length) {
    const cell = ready.shift();
    order.push(cell);
    for (const next of out.get(cell)) {
      next.layer = Math.max(next.layer, cell.layer + 1);
      waiting.set(next, waiting.get(next) - 1);
      if (!waiting.get(next)) ready.push(next);
    }
  }
  for (const cell of order.reverse())
    if (!into.get(cell).length && !cell.first && out.get(cell).length)
      cell.layer = Math.min(...out.get(cell).map((next) => next.layer)) - 1;
  if (cells.some((cell) => cell.first))
    for (const cell of cells)
      cell.layer = cell.first ? 0 : into.get(cell).length ? cell.layer : Math.max(1, cell.layer);
  // an item that had to leave the top layer pushes what reads it
  for (const cell of order.slice().reverse())
    for (const next of out.get(cell)) next.layer = Math.max(next.layer, cell.layer + 1);
  const bottom = Math.max(0, ...cells.filter((cell) => !cell.last).map((cell) => cell.layer)) + 1;
  for (const cell of cells) if (cell.last) cell.layer = Math.max(bottom, cell.layer);
  const used = [...new Set(cells.map((cell) => cell.layer))].sort((a, b) => a - b);
  const renumbered = new Map(used.map((layer, index) => [layer, index]));
  for (const cell of cells) cell.layer = renumbered.get(cell.layer);
}

/** Put a narrow dummy into every layer between the ends of an edge; returns the chain of each. */
function addDummies(cells, links) {
  return links.map((link) => {
    const [top, bottom] = [upper(link), lower(link)];
    const chain = [top];
    if (top === bottom) return [top, top];
    const lane = {
      topX: link.back ? link.toX : link.fromX,
      bottomX: link.back ? link.fromX : link.toX,
    };
    for (let layer = top.layer + 1; layer < bottom.layer; layer++) {
      const dummy = { dummy: true, width: 8, height: 0, layer, x: 0, up: [], down: [] };
      cells.push(dummy);
      chain.push(dummy);
    }
    chain.push(bottom);
    for (let k = 0; k + 1 < chain.length; k++) {
      const fromX = k === 0 && lane.topX !== undefined ? lane.topX : chain[k].width / 2;
      const toX =
        k + 2 === chain.length && lane.bottomX !== undefined
          ? lane.bottomX
          : chain[k + 1].width / 2;
      chain[k].down.push({ cell: chain[k + 1], own: fromX, other: toX });
      chain[k + 1].up.push({ cell: chain[k], own: toX, other: fromX });
    }
    return chain;
  });
}

/** Layers in an order with few crossings. */
function orderLayers(cells) {
  const layers = [];
  for (const cell of cells) (layers[cell.layer] ??= []).push(cell);
  const settle = (layer) => layer.forEach((cell, index) => (cell.order = index));
  layers.forEach(settle);
  let best = layers.map((layer) => layer.slice());
  let fewest = crossings(layers);
  for (let sweep = 0; sweep < SWEEPS && fewest; sweep++) {
    const down = sweep % 2 === 0;
    const turn = down ? layers.slice(1) : layers.slice(0, -1).reverse();
    for (const layer of turn) {
      for (const cell of layer) {
        const near = down ? cell.up : cell.down;
        const size = down ? layers[cell.layer - 1].length : layers[cell.layer + 1].length;
        cell.key = near.length
          ? near.reduce(
              (sum, link) => sum + link.cell.order + link.other / (link.cell.width + 1),
              0,
            ) /
            near.length /
            size
          : cell.order / layer.length;
      }
      layer.sort((a, b) => a.key - b.key || a.order - b.order);
      settle(layer);
    }
    const now = crossings(layers);
    if (now < fewest) {
      fewest = now;
      best = layers.map((layer) => layer.slice());
    }
  }
  best.forEach(settle);
  return best;
}

function crossings(layers) {
  let found = 0;
  for (const layer of layers) {
    const ends = [];
    for (const cell of layer)
      for (const link of cell.down)
        ends.push([
          cell.order + link.own / (cell.width + 1),
          link.cell.order + link.other / (link.cell.width + 1),
        ]);
    for (let i = 0; i < ends.length; i++)
      for (let j = i + 1; j < ends.length; j++)
        if ((ends[i][0] - ends[j][0]) * (ends[i][1] - ends[j][1]) < 0) found++;
  }
  return found;
}

/** Give every cell an x; returns the width. */
function placeAcross(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const cell of layer) {
      cell.x = x;
      x += cell.width + GAP_X;
    }
  }
  for (let sweep = 0; sweep < 2 * SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : layers.slice().reverse()) {
      const wish = layer.map((cell) => {
        const near = sweep < SWEEPS ? (down ? cell.up : cell.down) : [...cell.up, ...cell.down];
        return near.length
          ? median(near.map((link) => link.cell.x + link.other - link.own))
          : cell.x;
      });
      spread(layer, wish);
    }
  }
  const shift = layers.length ? Math.min(...layers.flat().map((cell) => cell.x)) : 0;
  let width = 0;
  for (const cell of layers.flat()) {
    cell.x -= shift;
    width = Math.max(width, cell.x + cell.width);
  }
  return width;
}

function median(values) {
  const sorted = values.slice().sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Nearest positions to `wish` in which the cells keep their order and their gaps. */
function spread(layer, wish) {
  const offsets = [];
  let offset = 0;
  for (const cell of layer) {
    offsets.push(offset);
    offset += cell.width + GAP_X;
  }
  const blocks = []; // pool adjacent violators
  wish.forEach((x, index) => {
    blocks.push({ mean: x - offsets[index], count: 1 });
    while (blocks.length > 1 && blocks[blocks.length - 2].mean > blocks[blocks.length - 1].mean) {
      const last = blocks.pop();
      const previous = blocks[blocks.length - 1];
      previous.mean =
        (previous.mean * previous.count + last.mean * last.count) / (previous.count + last.count);
      previous.count += last.count;
    }
  });
  let index = 0;
  for (const block of blocks)
    for (let k = 0; k < block.count; k++, index++) layer[index].x = block.mean + offsets[index];
}

/** Points of an edge from its source to its target. */
function edgeLine(link, chain, layers) {
  const points = [];
  const top = chain[0];
  const bottom = chain[chain.length - 1];
  if (top === bottom) return [];
  const topX = link.back ? link.toX : link.fromX;
  const bottomX = link.back ? link.fromX : link.toX;
  points.push([top.x + (topX ?? top.width / 2), top.y + top.height]);
  // leave the layer of the upper end straight down, past its taller neighbours
  const floor = top.y + Math.max(...layers[top.layer].map((cell) => cell.height));
  if (floor > top.y + top.height) points.push([points[0][0], floor]);
  for (const cell of chain.slice(1, -1)) {
    const tall = Math.max(...layers[cell.layer].map((each) => each.height));
    points.push([cell.x + cell.width / 2, cell.y], [cell.x + cell.width / 2, cell.y + tall]);
  }
  points.push([bottom.x + (bottomX ?? bottom.width / 2), bottom.y]);
  return link.back ? points.reverse() : points;
}
