// Memory: what lies where in the arena, from which launch to which.

const ROW = 260; // height of the map in pixels

function memoryView(page) {
  const { data } = page;
  const stages = data.stages.filter((stage) => stage.plan);
  if (!stages.length)
    return { element: h("p", { class: "muted" }, "This dump has no launch plan."), show: () => {} };
  const state = { stage: stages[0], wide: false };
  const tabs = stagePicker(stages, (stage) => {
    state.stage = stage;
    draw();
  });
  const scroll = h("div", { class: "scroll map", tabindex: "-1" });
  const facts = h("p", { class: "chips" });
  const detail = h("div", { class: "detail flat", "aria-live": "polite" });
  const wide = h(
    "button",
    {
      type: "button",
      "aria-pressed": "false",
      onclick: () => {
        state.wide = !state.wide;
        wide.setAttribute("aria-pressed", String(state.wide));
        draw();
      },
    },
    "wide",
  );

  function draw() {
    const { plan } = state.stage;
    page.remember("memory", state.stage.name);
    const peak = Math.max(0, ...plan.used);
    replace(
      facts,
      [
        `arena ${bytes(plan.arena)}`,
        `in use at most ${bytes(peak)}${plan.arena ? ` (${((100 * peak) / plan.arena).toFixed(1)} %)` : ""}`,
        ...Object.entries(plan.places)
          .filter(([place]) => place !== "arena")
          .map(([place, size]) => `${place} ${bytes(size)}`),
        `${plan.ranges.length} buffers in the arena together ${bytes(plan.places.arena)}`,
      ].map((text) => h("span", { class: "chip" }, text)),
    );
    replace(scroll, memoryMap(plan, Math.max(280, scroll.clientWidth - 4), state.wide));
    replace(
      detail,
      h(
        "p",
        { class: "muted" },
        "Choose a buffer: left and right go from launch to launch, up and down through the offsets.",
      ),
      largest(plan),
    );
    const first = scroll.querySelector(".range");
    if (first) stopAt(scroll, ".range", first);
  }

  function largest(plan) {
    const kinds = new Map(); // layers repeat: one line per operation and size
    plan.ranges.forEach(([buffer], index) => {
      const size = plan.buffers[buffer][4];
      const key = `${operation(plan.buffers[buffer][0])} ${size}`;
      if (!kinds.has(key)) kinds.set(key, { size, index, times: 0 });
      kinds.get(key).times++;
    });
    const order = [...kinds.values()]
      .sort((a, b) => b.size - a.size || a.index - b.index)
      .slice(0, 12);
    return h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "largest" },
        h("caption", {}, "Largest buffers"),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["bytes", "result of", "times", "first"].map((title, k) =>
              h("th", { scope: "col", class: k % 2 ? "" : "right" }, title),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          order.map(({ size, index, times }) => {
            const [buffer, , first, last] = plan.ranges[index];
            const name = plan.buffers[buffer][0];
            return h(
              "tr",
              {},
              h("td", { class: "right" }, bytes(size)),
              h(
                "td",
                {},
                h("span", { class: `swatch shade${shade(name)}`, "aria-hidden": "true" }),
                operation(name),
              ),
              h("td", { class: "right" }, count(times)),
              h(
                "td",
                {},
                h(
                  "button",
                  {
                    type: "button",
                    class: "chip",
                    onclick: () => pick(scroll.querySelector(`.range[data-index="${index}"]`)),
                  },
                  name,
                ),
                first === last ? ` launch ${first}` : ` launches ${first} to ${last}`,
              ),
            );
          }),
        ),
      ),
    );
  }

  function pick(element) {
    const { plan } = state.stage;
    const [buffer, offset, first, last] = plan.ranges[Number(element.dataset.index)];
    for (const each of scroll.querySelectorAll(".range"))
      each.classList.toggle("chosen", each === element);
    const [name, dtype, shape, , size] = plan.buffers[buffer];
    const touched = plan.launches
      .map((launch, k) => [k, launch])
      .slice(first, last + 1)
      .filter(([, launch]) => launch.slice(2).includes(buffer));
    replace(
      detail,
      h("h3", {}, name),
      h(
        "dl",
        { class: "facts" },
        h("dt", {}, "type"),
        h("dd", {}, `${dtype}[${shape.join(", ")}]`),
        h("dt", {}, "bytes"),
        h("dd", {}, `${count(size)} from offset ${count(offset)}`),
        h("dt", {}, "launches"),
        h(
          "dd",
          {},
          h(
            "ol",
            { class: "launches" },
            touched.map(([k, launch]) =>
              h(
                "li",
                { value: k },
                `${plan.labels[launch[1]]} `,
                h(
                  "a",
                  { href: page.link("kernels", state.stage.name, plan.kernels[launch[0]].name) },
                  plan.kernels[launch[0]].name,
                ),
              ),
            ),
          ),
        ),
      ),
    );
  }

  function next(from, key) {
    const { ranges, buffers } = state.stage.plan;
    const here = ranges[Number(from.dataset.index)];
    const middle = (range) => [(range[2] + range[3]) / 2, range[1] + buffers[range[0]][4] / 2];
    const [x, y] = middle(here);
    const across = key === "ArrowLeft" || key === "ArrowRight";
    const sign = key === "ArrowLeft" || key === "ArrowDown" ? -1 : 1;
    const scale = [
      1 / Math.max(1, state.stage.plan.launches.length),
      1 / Math.max(1, state.stage.plan.arena),
    ];
    let best = null;
    let least = Infinity;
    ranges.forEach((range, index) => {
      const [dx, dy] = [(middle(range)[0] - x) * scale[0], (middle(range)[1] - y) * scale[1]];
      const along = sign * (across ? dx : dy);
      const aside = Math.abs(across ? dy : dx);
      if (along <= 0 || range === here) return;
      const far = along + (across ? 0.2 : 20) * aside;
      if (far < least) [best, least] = [index, far];
    });
    return best === null ? null : scroll.querySelector(`.range[data-index="${best}"]`);
  }

  roving(scroll, ".range", { move: next, onFocus: pick });
  scroll.addEventListener("click", (event) => {
    const element = event.target.closest(".range");
    if (element) {
      focusIn(scroll, ".range", element, { preventScroll: true });
      pick(element);
    }
  });
  return {
    element: h(
      "div",
      {},
      h("div", { class: "toolbar" }, tabs.element, wide),
      facts,
      scroll,
      detail,
    ),
    show: (stageName) => {
      state.stage = stages.find((each) => each.name === stageName) ?? state.stage;
      tabs.mark(state.stage);
      draw();
    },
  };
}

/** The map as SVG: launches to the right, offsets upwards, bytes in use as a line. */
function memoryMap(plan, room, wide) {
  const launches = plan.launches.length;
  const left = 64;
  const step = wide
    ? Math.max(12, (room - left) / Math.max(1, launches))
    : (room - left - 4) / Math.max(1, launches);
  const width = left + step * launches + 4;
  const top = plan.arena || 1;
  const y = (offset) => ROW * (1 - offset / top) + 8;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => part * top);
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => n * step >= 44) ?? 2000;
  const marks = Array.from({ length: Math.ceil(launches / every) }, (_, k) => k * every);
  const used = plan.used.map(
    (size, k) =>
      `${(left + k * step).toFixed(1)} ${y(size).toFixed(1)}H${(left + (k + 1) * step).toFixed(1)}`,
  );
  return s(
    "svg",
    {
      width: width.toFixed(0),
      height: ROW + 44,
      class: "memory",
      role: "group",
      "aria-label": `memory map: ${plan.ranges.length} buffers over ${launches} launches`,
    },
    ticks.map((tick) => [
      s("line", { x1: left, x2: width, y1: y(tick), y2: y(tick), class: "grid" }),
      s("text", { x: left - 6, y: y(tick) + 4, class: "tick end" }, bytes(Math.round(tick))),
    ]),
    marks.map((mark) =>
      s("text", { x: left + (mark + 0.5) * step, y: ROW + 24, class: "tick middle" }, mark),
    ),
    s("text", { x: left, y: ROW + 40, class: "tick" }, "launch"),
    plan.ranges.map(([buffer, offset, first, last], index) => {
      const size = plan.buffers[buffer][4];
      return s(
        "rect",
        {
          class: `range shade${shade(plan.buffers[buffer][0])}`,
          "data-index": index,
          role: "button",
          tabindex: "-1",
          "aria-label": `${plan.buffers[buffer][0]}, ${bytes(size)}, launches ${first} to ${last}`,
          x: (left + first * step).toFixed(2),
          width: Math.max(1, (last - first + 1) * step - (step > 3 ? 1 : 0)).toFixed(2),
          y: y(offset + size).toFixed(2),
          height: Math.max(1, (ROW * size) / top - 0.5).toFixed(2),
        },
        s("title", {}, `${plan.buffers[buffer][0]}: ${bytes(size)}, launches ${first} to ${last}`),
      );
    }),
    used.length
      ? s("path", { class: step < 4 ? "used dense" : "used", d: `M${used.join("L")}` })
      : null,
  );
}

/** "model.layers.3.linear.12" -> "linear". */
function operation(name) {
  return name
    .replace(/(\.\d+)+$/, "")
    .split(".")
    .pop();
}

/** The same colour for the same operation in every layer. */
function shade(name) {
  const op = operation(name);
  let hash = 0;
  for (const letter of op) hash = (hash * 31 + letter.charCodeAt(0)) % 6;
  return hash;
}
