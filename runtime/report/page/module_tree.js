// The nodes of a graph as a tree of modules, and nested boxes of the open ones. No document is
// needed here.

const TITLE = 24;
const INSET = 10;
const LETTER = 7.3; // width of a letter at 12 pixels in the fonts of the page
const WIDEST = 34; // letters
const MANY = 4; // inputs of one family are a group from more than this

/**
 * The tree of modules of a graph: {id, name, path, groups, leaves}. A group's id is its path with a
 * slash before it, a leaf's id is the node's position. A group
 * of one operation, its parameters aside, becomes that operation.
 */
function moduleTree(data, graph, showParams) {
  const parts = graph.nodes.map((_, position) => lineParts(data, graph, position));
  const readers = parts.map(() => []);
  for (const part of parts)
    for (const value of part.operands) readers[nodeOf(value)].push(part.position);
  const shown = parts.filter((part) => showParams || part.op !== "param");
  const paths = new Map(
    shown.map((part) => [
      part.position,
      part.place && part.op !== "param" ? part.place[2].split(".").filter(Boolean) : null,
    ]),
  );
  for (const part of shown.slice().reverse())
    if (!paths.get(part.position))
      paths.set(
        part.position,
        part.op === "input"
          ? []
          : sharedStart(readers[part.position].map((reader) => paths.get(reader) ?? [])),
      );
  const placed = shown.filter((part) => part.place && part.op !== "param" && part.op !== "input");
  const families = new Map(); // inputs of one family, such as the caches of all layers
  for (const part of shown)
    if (part.op === "input") families.set(family(part), (families.get(family(part)) ?? 0) + 1);
  const skip = sharedStart(placed.map((part) => paths.get(part.position))).length;
  const root = { id: "/", name: graph.name, path: "", groups: new Map(), leaves: [] };
  for (const part of shown) {
    const many = part.op === "input" && families.get(family(part)) > MANY;
    const path = many ? [`${family(part)} inputs`] : paths.get(part.position).slice(skip);
    let group = root;
    path.forEach((name, depth) => {
      const id = `/${path.slice(0, depth + 1).join(".")}`;
      if (!group.groups.has(name))
        group.groups.set(name, { id, name, path: id.slice(1), groups: new Map(), leaves: [] });
      group = group.groups.get(name);
    });
    group.leaves.push({ id: part.position, part, tail: "" });
  }
  return joinSingles(root);
}

function family(part) {
  return part.name.split(".")[0];
}

function sharedStart(paths) {
  if (!paths.length) return [];
  let length = Math.min(...paths.map((path) => path.length));
  for (let k = 0; k < length; k++) if (paths.some((path) => path[k] !== paths[0][k])) length = k;
  return paths[0].slice(0, length);
}

function joinSingles(group) {
  for (const [name, child] of [...group.groups]) {
    joinSingles(child);
    if (!child.groups.size && child.leaves.filter((leaf) => leaf.part.op !== "param").length <= 1) {
      for (const leaf of child.leaves)
        group.leaves.push({
          ...leaf,
          tail: leaf.part.op === "param" ? "" : leaf.tail ? `${name}.${leaf.tail}` : name,
        });
      group.groups.delete(name);
    } else if (child.groups.size === 1 && !child.leaves.length) {
      const only = [...child.groups.values()][0];
      group.groups.set(name, { ...only, name: `${name}.${only.name}` });
    }
  }
  group.leaves.sort((a, b) => a.id - b.id);
  return group;
}

/** All leaves below a group. */
function leavesOf(group) {
  return [...group.leaves, ...[...group.groups.values()].flatMap(leavesOf)].sort(
    (a, b) => a.id - b.id,
  );
}

/** All groups below a group, outermost first. */
function groupsOf(group) {
  return [...group.groups.values()].flatMap((child) => [child, ...groupsOf(child)]);
}

/** How many boxes a group would show, parameters aside. */
function visibleCount(group, open) {
  return (
    group.leaves.filter((leaf) => leaf.part.op !== "param").length +
    [...group.groups.values()].reduce(
      (sum, child) => sum + (open.has(child.id) ? visibleCount(child, open) : 1),
      0,
    )
  );
}

/** Lines of text in the box of a leaf or of a closed group. */
function boxText(item) {
  if (item.groups) {
    const counts = new Map();
    for (const leaf of leavesOf(item))
      counts.set(leaf.part.op, (counts.get(leaf.part.op) ?? 0) + 1);
    const often = [...counts]
      .sort((a, b) => b[1] - a[1])
      .map(([op, times]) => (times > 1 ? `${op} ×${times}` : op));
    return [`▸ ${item.name}`, clip(often.join(", "))];
  }
  const { op, name, attributes, types } = item.part;
  const callee = op === "call" ? /callee="([^"]+)"/.exec(attributes) : null;
  return [
    clip(`${op} ${name || (callee ? callee[1] : "")} ${item.tail}`.replace(/\s+/g, " ").trim()),
    clip(types),
  ];
}

function clip(text) {
  return text.length > WIDEST ? `${text.slice(0, WIDEST - 1)}…` : text;
}

/**
 * Nested boxes: {width, height, boxes: [{item, x, y, width, height, open, depth}], edges: [{points,
 * from, targets, arrow}]}. `from` and `targets` are ids of visible boxes.
 */
function nestedLayout(root, open) {
  const reps = new Map(); // leaf -> id of the visible box that stands for it
  const mark = (group, closed) => {
    for (const leaf of group.leaves) reps.set(leaf.id, closed ?? leaf.id);
    for (const child of group.groups.values())
      mark(child, closed ?? (open.has(child.id) ? null : child.id));
  };
  mark(root, null);
  const links = [];
  for (const leaf of leavesOf(root))
    for (const source of new Set(leaf.part.operands.map(nodeOf)))
      if (reps.has(source) && reps.get(source) !== reps.get(leaf.id))
        links.push({ source, from: reps.get(source), to: leaf.id, target: reps.get(leaf.id) });
  const drawn = drawGroup(root, links, open, 0);
  return { width: drawn.width, height: drawn.height, boxes: drawn.boxes, edges: drawn.edges };
}

/** Lay out one open group; coordinates are relative to its inner area, moved by the caller. */
function drawGroup(group, links, open, depth) {
  const children = [...group.leaves, ...group.groups.values()];
  const owner = new Map();
  for (const child of children)
    for (const leaf of child.groups ? leavesOf(child) : [child]) owner.set(leaf.id, child);
  const inner = new Map();
  for (const child of children)
    if (child.groups && open.has(child.id))
      inner.set(child.id, drawGroup(child, links, open, depth + 1));
  const items = children.map((child) => {
    if (inner.has(child.id))
      return {
        id: child.id,
        width: inner.get(child.id).outerWidth,
        height: inner.get(child.id).outerHeight,
      };
    const text = boxText(child);
    return {
      id: child.id,
      width: Math.max(60, Math.max(...text.map((line) => line.length)) * LETTER + 22),
      height: 42,
    };
  });
  const edges = new Map(); // one per source box and child that reads it
  const add = (key, from, to, link) => {
    if (!edges.has(key))
      edges.set(key, { from, to, source: link.from, targets: new Set(), arrow: false });
    edges.get(key).targets.add(link.target);
  };
  const ports = new Set();
  for (const link of links) {
    const a = owner.get(link.source);
    const b = owner.get(link.to);
    if (a && b && a === b) continue;
    if (a && b) add(`${link.from}>${b.id}`, a.id, b.id, link);
    else if (b) {
      ports.add(`in ${link.from}`);
      add(`in ${link.from}>${b.id}`, `in ${link.from}`, b.id, link);
    } else if (a) {
      ports.add(`out ${link.from}`);
      add(`out ${link.from}`, a.id, `out ${link.from}`, link);
    }
  }
  for (const id of ports)
    items.push({
      id,
      width: 8,
      height: 0,
      first: id.startsWith("in "),
      last: id.startsWith("out "),
    });
  const list = [...edges.values()].map((edge) => ({
    ...edge,
    fromX: inner.get(edge.from)?.outX.get(edge.source),
    toX: inner.get(edge.to)?.inX.get(edge.source),
    arrow: !String(edge.to).startsWith("out ") && !inner.has(edge.to),
  }));
  const placed = layeredLayout(items, list);
  return assemble(group, children, items, list, placed, inner, depth);
}

function assemble(group, children, items, list, placed, inner, depth) {
  const boxes = [];
  const edges = [];
  children.forEach((child, index) => {
    const { x, y } = placed.at.get(child.id);
    const { width, height } = items[index];
    const nested = inner.get(child.id);
    boxes.push({ item: child, x, y, width, height, open: Boolean(nested), depth });
    if (!nested) return;
    const [dx, dy] = [x + INSET, y + TITLE + INSET];
    for (const box of nested.boxes) boxes.push({ ...box, x: box.x + dx, y: box.y + dy });
    for (const edge of nested.edges)
      edges.push({ ...edge, points: edge.points.map(([px, py]) => [px + dx, py + dy]) });
  });
  const inX = new Map();
  const outX = new Map();
  list.forEach((edge, index) => {
    const points = placed.lines[index];
    if (!points.length) return;
    if (String(edge.from).startsWith("in ")) {
      points.unshift([points[0][0], -TITLE - INSET]);
      inX.set(edge.source, points[0][0] + INSET);
    }
    if (String(edge.to).startsWith("out ")) {
      const end = points[points.length - 1];
      points.push([end[0], placed.height + INSET]);
      outX.set(edge.source, end[0] + INSET);
    }
    edges.push({ points, from: edge.source, targets: [...edge.targets], arrow: edge.arrow });
  });
  const outerWidth = Math.max(placed.width, group.name.length * LETTER + 40) + 2 * INSET;
  const outerHeight = placed.height + TITLE + 2 * INSET;
  return {
    width: placed.width,
    height: placed.height,
    boxes,
    edges,
    inX,
    outX,
    outerWidth,
    outerHeight,
  };
}
