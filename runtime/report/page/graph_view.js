// Graph: one function as nested boxes of modules; a box says what it is, where it came from and
// which kernel computes it.

function graphView(page) {
  const { data } = page;
  const state = {
    stage: 0,
    version: 0,
    graph: 0,
    params: false,
    open: new Set(),
    tree: null,
    drawn: null,
    chosen: null,
  };
  const svg = s("svg", {
    class: "graph",
    role: "group",
    "aria-label":
      "graph; arrow keys move between boxes, Enter opens and closes a module, plus and minus zoom, shift and arrows pan",
  });
  const content = s("g");
  svg.append(
    s(
      "defs",
      {},
      s(
        "marker",
        {
          id: "arrow",
          viewBox: "0 0 8 8",
          refX: "7",
          refY: "4",
          markerWidth: "8",
          markerHeight: "8",
          markerUnits: "userSpaceOnUse",
          orient: "auto",
        },
        s("path", { d: "M0 0L8 4L0 8z", class: "head" }),
      ),
    ),
    content,
  );
  const view = panZoom(svg, content, () => state.drawn ?? { width: 1, height: 1 });
  const detail = h("aside", {
    class: "detail",
    "aria-label": "selected node",
    "aria-live": "polite",
  });
  const version = h("select", { onchange: () => choose(...version.value.split(" ").map(Number)) });
  const functions = h("select", {
    onchange: () => choose(state.stage, state.version, Number(functions.value)),
  });
  const params = h("input", {
    type: "checkbox",
    onchange: () => {
      state.params = params.checked;
      build(true);
    },
  });
  const button = (text, label, action) =>
    h("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
  const toolbar = h(
    "div",
    { class: "toolbar" },
    h("label", {}, "program ", version),
    h("label", {}, "function ", functions),
    h("label", { class: "check" }, params, " parameters"),
    h(
      "span",
      { class: "group" },
      button("open all", "open all modules", () => openAll(true)),
      button("close all", "close all modules", () => openAll(false)),
    ),
    h(
      "span",
      { class: "group" },
      button("−", "zoom out", () => view.zoom(0.8)),
      button("+", "zoom in", () => view.zoom(1.25)),
      button("fit", "show the whole graph", () => view.fit(true)),
    ),
  );
  data.stages.forEach((stage, k) =>
    version.append(
      h(
        "optgroup",
        { label: stage.name },
        stage.versions.map((each, index) =>
          h(
            "option",
            { value: `${k} ${index}` },
            `${stage.name} / ${String(index).padStart(2, "0")} ${each.name}`,
          ),
        ),
      ),
    ),
  );

  function choose(stage, index, graph = null) {
    Object.assign(state, { stage, version: index, chosen: null });
    const numbers = data.stages[stage].versions[index].graphs;
    const graphs = numbers.map((number) => data.graphs[number]);
    replace(
      functions,
      graphs.map((each, k) =>
        h("option", { value: k }, `@${each.name} · ${each.nodes.length} nodes`),
      ),
    );
    const programs = graphs.filter((each) => !each.name.includes('"'));
    const last = programs.length > 1 ? programs[programs.length - 1] : (programs[0] ?? graphs[0]);
    state.graph = graph ?? graphs.indexOf(last);
    version.value = `${stage} ${index}`;
    functions.value = String(state.graph);
    build(true);
    replace(
      detail,
      h(
        "p",
        { class: "muted" },
        "Choose a box: its operation, types, place in the model and kernel are shown here.",
      ),
    );
    page.remember("graph", data.stages[stage].name, index, graphs[state.graph].name);
  }

  function current() {
    return data.graphs[data.stages[state.stage].versions[state.version].graphs[state.graph]];
  }

  function build(fresh) {
    state.tree = moduleTree(data, current(), state.params);
    if (fresh) {
      state.open = new Set();
      for (const group of [...state.tree.groups.values()].filter(
        (each) => !each.name.endsWith(" inputs"),
      )) {
        state.open.add(group.id);
        if (visibleCount(state.tree, state.open) > 48) state.open.delete(group.id);
      }
    }
    draw();
    if (fresh) view.fit();
  }

  function openAll(all) {
    state.open = new Set(all ? groupsOf(state.tree).map((group) => group.id) : []);
    draw();
    view.fit();
  }

  function draw() {
    state.drawn = nestedLayout(state.tree, state.open);
    const { boxes, edges } = state.drawn;
    replace(
      content,
      boxes.filter((box) => box.open).map((box) => boxElement(box, false)),
      edges.map((edge) =>
        s("path", {
          class: "edge",
          d: path(edge.points),
          "data-from": edge.from,
          "data-targets": edge.targets.join(" "),
          "marker-end": edge.arrow ? "url(#arrow)" : null,
        }),
      ),
      boxes.map((box) => (box.open ? titleElement(box) : boxElement(box, true))),
    );
    const first = content.querySelector(".box");
    if (first) stopAt(content, ".box", first);
    highlight();
  }

  function boxElement(box, solid) {
    if (!solid)
      return s("rect", {
        class: `frame depth${box.depth % 3}`,
        x: box.x,
        y: box.y,
        width: box.width,
        height: box.height,
        rx: 8,
      });
    const text = boxText(box.item);
    const group = Boolean(box.item.groups);
    const label = group
      ? `module ${box.item.name}, closed, ${leavesOf(box.item).length} nodes`
      : `%${box.item.id} ${text[0]}, ${box.item.part.types}`;
    return s(
      "g",
      {
        class: `box ${group ? "module" : `node ${kind(box.item.part.op)}`}`,
        role: "button",
        tabindex: "-1",
        "data-id": box.item.id,
        "aria-label": label,
        "aria-expanded": group ? "false" : null,
        transform: `translate(${box.x} ${box.y})`,
      },
      s("rect", { width: box.width, height: box.height, rx: group ? 8 : 4 }),
      s("text", { x: 10, y: 17, class: "first" }, text[0]),
      s("text", { x: 10, y: 33, class: "second" }, text[1]),
    );
  }

  function titleElement(box) {
    const text = `▾ ${box.item.name}`;
    return s(
      "g",
      {
        class: "box title",
        role: "button",
        tabindex: "-1",
        "data-id": box.item.id,
        "aria-label": `module ${box.item.name}, open`,
        "aria-expanded": "true",
        transform: `translate(${box.x} ${box.y})`,
      },
      s("rect", { x: 4, y: 3, width: text.length * LETTER + 14, height: TITLE - 5, rx: 4 }),
      s("text", { x: 11, y: 17, class: "first" }, text),
    );
  }

  function boxOf(id) {
    return state.drawn.boxes.find((box) => String(box.item.id) === id);
  }

  function pick(element, focus = true) {
    const box = boxOf(element.dataset.id);
    stopAt(content, ".box", element);
    if (focus) element.focus({ preventScroll: true });
    view.reveal(box.x, box.y, box.width, box.open ? TITLE : box.height);
    state.chosen = box.item.groups ? null : box.item.id;
    state.focused = element.dataset.id;
    highlight();
    replace(
      detail,
      box.item.groups
        ? moduleDetail(box.item)
        : nodeDetail(page, data.stages[state.stage], state.version, current(), box.item.id, goTo),
    );
  }

  function toggle(element) {
    const id = element.dataset.id;
    if (state.open.has(id)) state.open.delete(id);
    else state.open.add(id);
    draw();
    const again = content.querySelector(`.box[data-id="${CSS.escape(id)}"]`);
    if (again) pick(again);
  }

  function goTo(position) {
    const part = lineParts(data, current(), position);
    if (part.op === "param" && !state.params) {
      state.params = params.checked = true;
      state.tree = moduleTree(data, current(), true);
    }
    const openTo = (group) => {
      if (group.leaves.some((leaf) => leaf.id === position)) return true;
      const child = [...group.groups.values()].find(openTo);
      if (child) state.open.add(child.id);
      return Boolean(child);
    };
    openTo(state.tree);
    draw();
    const element = content.querySelector(`.box[data-id="${position}"]`);
    if (element) pick(element);
  }

  function highlight() {
    const id = String(state.focused ?? "");
    for (const edge of content.querySelectorAll(".edge")) {
      edge.classList.toggle("out", edge.dataset.from === id);
      edge.classList.toggle("in", edge.dataset.targets.split(" ").includes(id));
    }
    for (const box of content.querySelectorAll(".box"))
      box.classList.toggle("chosen", box.dataset.id === id);
  }

  svg.addEventListener("click", (event) => {
    const element = event.target.closest(".box");
    if (!element) return;
    if (element.hasAttribute("aria-expanded")) toggle(element);
    else pick(element);
  });
  svg.addEventListener("keydown", (event) => {
    const element = event.target.closest(".box");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    if (event.key in arrows && event.shiftKey)
      view.pan(arrows[event.key][0] * -60, arrows[event.key][1] * -60);
    else if (event.key in arrows && element) {
      const next = nearest(state.drawn, boxOf(element.dataset.id), arrows[event.key]);
      if (next) pick(content.querySelector(`.box[data-id="${CSS.escape(String(next.item.id))}"]`));
    } else if ((event.key === "Enter" || event.key === " ") && element) {
      if (element.hasAttribute("aria-expanded")) toggle(element);
      else pick(element);
    } else if (event.key === "Backspace" && element) {
      const inside = groupsOf(state.tree).filter(
        (group) =>
          state.open.has(group.id) &&
          String(group.id) !== element.dataset.id &&
          holds(group, boxOf(element.dataset.id).item),
      );
      const title =
        inside.length &&
        content.querySelector(`.box[data-id="${CSS.escape(inside[inside.length - 1].id)}"]`);
      if (title) pick(title);
    } else if (event.key === "+" || event.key === "=") view.zoom(1.25);
    else if (event.key === "-") view.zoom(0.8);
    else if (event.key === "0") view.fit(true);
    else return;
    event.preventDefault();
  });

  let shown = false;
  return {
    element: h(
      "div",
      { class: "graph-view" },
      toolbar,
      h("div", { class: "columns reversed" }, h("div", { class: "canvas" }, svg), detail),
    ),
    show: (stageName, index, name, position) => {
      const stage = data.stages.findIndex((each) => each.name === stageName);
      if (stage >= 0 || !shown) {
        const at =
          stage >= 0
            ? stage
            : data.stages.findIndex((each) => each.plan) >= 0
              ? data.stages.findIndex((each) => each.plan)
              : data.stages.length - 1;
        const versions = data.stages[at].versions;
        const number =
          index === undefined || !versions[Number(index)] ? versions.length - 1 : Number(index);
        const graph = versions[number].graphs.findIndex((each) => data.graphs[each].name === name);
        choose(at, number, graph >= 0 ? graph : null);
        if (position !== undefined) goTo(Number(position));
      }
      shown = true;
    },
  };
}
