// Pieces of the graph view without state: colours, paths, the nearest box, what a box is.

/** Colour class of an operation. */
function kind(op) {
  if (op === "input" || op === "param") return "outside";
  if (/linear|matmul/.test(op)) return "product";
  if (/attention|cache/.test(op)) return "attend";
  if (/route|dispatch|combine|gather|scatter|sort|topk/.test(op)) return "move";
  if (op === "call") return "call";
  return "";
}

/** The path of an edge: straight down its lanes, curved between them. */
function path(points) {
  let text = `M${points[0][0].toFixed(1)} ${points[0][1].toFixed(1)}`;
  for (let k = 1; k < points.length; k++) {
    const [ax, ay] = points[k - 1];
    const [bx, by] = points[k];
    if (Math.abs(ax - bx) < 0.5) text += `L${bx.toFixed(1)} ${by.toFixed(1)}`;
    else {
      const middle = (ay + by) / 2;
      text += `C${ax.toFixed(1)} ${middle.toFixed(1)} ${bx.toFixed(1)} ${middle.toFixed(1)} ${bx.toFixed(1)} ${by.toFixed(1)}`;
    }
  }
  return text;
}

/** Whether a group holds a leaf or another group. */
function holds(group, item) {
  return item.groups
    ? groupsOf(group).includes(item)
    : leavesOf(group).some((leaf) => leaf.id === item.id);
}

/**
 * The box to go to from `from`: up and down along the edges if there are any, else the nearest in
 * that direction, one far to the side counting double.
 */
function nearest(drawn, from, [dx, dy]) {
  const id = from.item.id;
  const joined = new Set(
    dy > 0
      ? drawn.edges.filter((edge) => edge.from === id).flatMap((edge) => edge.targets)
      : dy < 0
        ? drawn.edges.filter((edge) => edge.targets.includes(id)).map((edge) => edge.from)
        : [],
  );
  const linked = drawn.boxes.filter((box) => joined.has(box.item.id));
  return nearestOf(linked, from, [dx, dy], 0.5) ?? nearestOf(drawn.boxes, from, [dx, dy], 2);
}

function nearestOf(boxes, from, [dx, dy], sideways) {
  const middle = (box) => [box.x + box.width / 2, box.y + (box.open ? TITLE : box.height) / 2];
  const [fx, fy] = middle(from);
  let best = null;
  let least = Infinity;
  for (const box of boxes) {
    const [x, y] = middle(box);
    const along = (x - fx) * dx + (y - fy) * dy;
    const aside = Math.abs((x - fx) * dy) + Math.abs((y - fy) * dx);
    if (box === from || along < 4) continue;
    const far = along + sideways * aside;
    if (far < least) [best, least] = [box, far];
  }
  return best;
}

function moduleDetail(group) {
  const leaves = leavesOf(group);
  const counts = new Map();
  for (const leaf of leaves) counts.set(leaf.part.op, (counts.get(leaf.part.op) ?? 0) + 1);
  return [
    h("h3", {}, group.path || group.name),
    h("p", {}, `${leaves.length} nodes`),
    h(
      "dl",
      { class: "facts" },
      [...counts]
        .sort((a, b) => b[1] - a[1])
        .map(([op, times]) => [h("dt", {}, op), h("dd", {}, times)]),
    ),
  ];
}

function nodeDetail(page, stage, versionIndex, graph, position, goTo) {
  const { data } = page;
  const part = lineParts(data, graph, position);
  const jump = (value) =>
    h(
      "button",
      { type: "button", class: "chip", onclick: () => goTo(nodeOf(value)) },
      `${valueText(value)} ${lineParts(data, graph, nodeOf(value)).op}`,
    );
  const readers = graph.nodes.flatMap((node, k) =>
    node.slice(2).some((value) => nodeOf(value) === position) ? [k] : [],
  );
  const last = versionIndex === stage.versions.length - 1;
  const launches = last && stage.plan ? (stage.plan.nodes[graph.name]?.[position] ?? []) : [];
  const kernels = [...new Set(launches.map((number) => stage.plan.launches[number][0]))];
  const place = h("div");
  if (part.place) place.append(sourceLines(data, part.place));
  return [
    h("h3", {}, `%${position} ${part.op}`),
    h("pre", { class: "wrap" }, h("code", { class: "ir" }, irLine(part, null))),
    h(
      "dl",
      { class: "facts" },
      h("dt", {}, "types"),
      h("dd", {}, part.types),
      part.operands.length ? [h("dt", {}, "reads"), h("dd", {}, part.operands.map(jump))] : null,
      h("dt", {}, "read by"),
      h(
        "dd",
        {},
        readers.map(jump),
        graph.outputs.some((value) => nodeOf(value) === position)
          ? h("span", { class: "chip" }, "result of the function")
          : null,
        readers.length || graph.outputs.some((value) => nodeOf(value) === position)
          ? null
          : "nothing",
      ),
      stage.plan && last
        ? [
            h("dt", {}, "kernel"),
            h(
              "dd",
              {},
              kernels.map((number) => kernelLink(page, stage, number, launches)),
              kernels.length
                ? null
                : part.op === "input" || part.op === "param"
                  ? "none: it is given"
                  : "none of its own: a view, or computed inside a neighbour's kernel",
            ),
          ]
        : null,
    ),
    place,
  ];
}

function kernelLink(page, stage, number, launches) {
  const { name } = stage.plan.kernels[number];
  const cost = stage.cost?.kernels.find((each) => each.name === name);
  const times = launches.filter((launch) => stage.plan.launches[launch][0] === number).length;
  return h(
    "div",
    {},
    h("a", { href: page.link("kernels", stage.name, name) }, name),
    ` · ${times} ${times === 1 ? "launch" : "launches"}`,
    cost && cost.launches
      ? ` · modelled ${microseconds(cost.microseconds / cost.launches)} each`
      : "",
  );
}
