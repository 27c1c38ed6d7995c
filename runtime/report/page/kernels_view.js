// Kernels: launches and modelled cost of each, and its text.

function kernelsView(page) {
  const { data } = page;
  const stages = data.stages.filter((stage) => stage.plan);
  if (!stages.length)
    return { element: h("p", { class: "muted" }, "This dump has no launch plan."), show: () => {} };
  const state = { stage: stages[0], key: null, down: true, name: null };
  const filter = h("input", {
    type: "search",
    placeholder: "filter",
    "aria-label": "filter kernels by name, family or bound",
    "data-search": true,
    oninput: () => table(),
  });
  const tabs = stagePicker(stages, (stage) => {
    state.stage = stage;
    state.name = null;
    table();
    pick(rows()[0]?.name, false);
  });
  const body = h("tbody");
  const head = h("tr");
  const total = h("p", { class: "chips" });
  const detail = h("div", { class: "main", tabindex: "-1", "aria-live": "off" });
  const columns = [
    ["name", "kernel", (row) => row.name, (row) => row.name],
    ["launches", "launches", (row) => row.launches, (row) => count(row.launches)],
    [
      "microseconds",
      "modelled time",
      (row) => row.cost?.microseconds ?? 0,
      (row) => (row.cost ? microseconds(row.cost.microseconds) : "–"),
    ],
    [
      "bytes",
      "bytes",
      (row) => row.cost?.bytes ?? 0,
      (row) => (row.cost ? bytes(row.cost.bytes) : "–"),
    ],
    [
      "operations",
      "operations",
      (row) => row.cost?.operations ?? 0,
      (row) => (row.cost ? decimal(row.cost.operations) : "–"),
    ],
    ["bound", "bound", (row) => row.cost?.bound ?? "", (row) => row.cost?.bound ?? "–"],
  ];

  function rows() {
    const { plan, cost } = state.stage;
    const launches = plan.kernels.map(() => 0);
    for (const launch of plan.launches) launches[launch[0]]++;
    const costs = costByKernel(cost);
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const key = state.key ?? (cost ? "microseconds" : "launches");
    const value = columns.find((column) => column[0] === key)[2];
    return plan.kernels
      .map((kernel, number) => ({
        ...kernel,
        number,
        launches: launches[number],
        cost: costs.get(kernel.name),
      }))
      .filter((row) =>
        words.every((word) =>
          `${row.name} ${row.family} ${row.kind} ${row.cost?.bound ?? ""}`
            .toLowerCase()
            .includes(word),
        ),
      )
      .sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const order = typeof x === "string" ? x.localeCompare(y, "en") : y - x;
        return (state.down ? order : -order) || a.number - b.number;
      });
  }

  function table() {
    const found = rows();
    const { cost, plan } = state.stage;
    const key = state.key ?? (cost ? "microseconds" : "launches");
    const most = Math.max(...found.map((row) => row.cost?.microseconds ?? 0), 1e-9);
    replace(
      head,
      columns.map(([name, title]) =>
        h(
          "th",
          {
            scope: "col",
            class: name === "name" || name === "bound" ? "" : "right",
            "aria-sort":
              name === key
                ? state.down === (name !== "name" && name !== "bound")
                  ? "descending"
                  : "ascending"
                : "none",
          },
          h(
            "button",
            {
              type: "button",
              onclick: () => {
                state.down = name === key ? !state.down : true;
                state.key = name;
                table();
                head.children[columns.findIndex((column) => column[0] === name)].firstChild.focus();
              },
            },
            title,
            name === key ? h("span", { "aria-hidden": "true" }, state.down ? " ▾" : " ▴") : null,
          ),
        ),
      ),
    );
    replace(
      body,
      found.map((row) =>
        h(
          "tr",
          {
            class: "kernel",
            tabindex: "-1",
            "data-name": row.name,
            "aria-selected": String(row.name === state.name),
          },
          columns.map(([name, , , text]) =>
            h(
              "td",
              { class: name === "name" ? "name" : name === "bound" ? "" : "right" },
              name === "microseconds" && row.cost
                ? h("span", {
                    class: "bar",
                    style: `--part:${(row.cost.microseconds / most).toFixed(4)}`,
                  })
                : null,
              text(row),
            ),
          ),
        ),
      ),
    );
    replace(total, costChips(plan, cost));
    const first = body.querySelector('[aria-selected="true"]') ?? body.querySelector("tr");
    if (first) stopAt(body, "tr", first);
  }

  async function pick(name, focus) {
    if (name === undefined)
      return replace(detail, h("p", { class: "muted" }, "No kernel fits the filter."));
    state.name = name;
    for (const row of body.querySelectorAll("tr"))
      row.setAttribute("aria-selected", String(row.dataset.name === name));
    const row = body.querySelector(`tr[data-name="${CSS.escape(name)}"]`);
    if (row) stopAt(body, "tr", row);
    if (row && focus) row.focus();
    row?.scrollIntoView({ block: "nearest" });
    page.remember("kernels", state.stage.name, name);
    const texts = await page.texts();
    if (state.name === name)
      replace(detail, kernelDetail(page, state.stage, name, texts[state.stage.name]?.[name]));
  }

  roving(body, "tr", { onFocus: (row) => pick(row.dataset.name, false) });
  body.addEventListener("click", (event) => pick(event.target.closest("tr").dataset.name, true));
  table();
  return {
    element: h(
      "div",
      {},
      h("div", { class: "toolbar" }, tabs.element, filter),
      total,
      h(
        "div",
        { class: "columns kernels" },
        h(
          "div",
          { class: "side wide" },
          h(
            "div",
            { class: "scroll" },
            h(
              "table",
              { class: "kernel-table", role: "grid", "aria-label": "kernels" },
              h("thead", {}, head),
              body,
            ),
          ),
        ),
        detail,
      ),
    ),
    show: (stageName, name) => {
      const stage = stages.find((each) => each.name === stageName) ?? state.stage;
      state.stage = stage;
      tabs.mark(stage);
      if (name !== undefined) filter.value = "";
      table();
      pick(
        name !== undefined && stage.plan.kernels.some((each) => each.name === name)
          ? name
          : (state.name ?? rows()[0]?.name),
        false,
      );
    },
  };
}

/** Entries of cost.json by kernel; entries of one kernel in several places are added up. */
function costByKernel(cost) {
  const found = new Map();
  for (const entry of cost?.kernels ?? []) {
    const known = found.get(entry.name);
    if (!known) found.set(entry.name, { ...entry });
    else {
      for (const key of ["microseconds", "bytes", "operations", "launches"]) known[key] += entry[key];
      if (known.bound !== entry.bound) known.bound = "mixed";
    }
  }
  return found;
}

function costChips(plan, cost) {
  const chip = (text) => h("span", { class: "chip" }, text);
  return [
    chip(`${count(plan.launches.length)} launches of ${plan.kernels.length} kernels`),
    ...(cost
      ? [
          chip(`modelled ${microseconds(cost.total.microseconds)} a step`),
          chip(bytes(cost.total.bytes)),
          chip(`${decimal(cost.total.operations)} operations`),
          cost.step
            ? chip(
                `step: ${Object.entries(cost.step)
                  .map(([name, value]) => `${value} ${name}`)
                  .join(", ")}`,
              )
            : null,
        ]
      : [chip("no cost model in this dump")]),
  ];
}

/** A row of buttons, one per stage with a plan. */
function stagePicker(stages, onPick) {
  const element = h("div", { class: "group", role: "radiogroup", "aria-label": "plan" });
  const mark = (stage) => {
    for (const button of element.children)
      button.setAttribute("aria-checked", String(button.textContent === stage.name));
    stopAt(element, "button", element.children[stages.indexOf(stage)]);
  };
  for (const stage of stages)
    element.append(
      h(
        "button",
        {
          type: "button",
          role: "radio",
          onclick: () => {
            mark(stage);
            onPick(stage);
          },
        },
        stage.name,
      ),
    );
  roving(element, "button", { onFocus: (button) => button.click() });
  mark(stages[0]);
  return { element, mark };
}
