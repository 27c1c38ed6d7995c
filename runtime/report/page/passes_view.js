// Passes: the list of every stage, and what one of them did, side by side.

function passesView(page) {
  const { data } = page;
  const list = h("nav", { class: "side", "aria-label": "passes" });
  const detail = h("div", { class: "main", tabindex: "-1" });
  const slowest = Math.max(
    ...data.stages.flatMap((stage) => stage.versions.map((version) => version.seconds?.[0] ?? 0)),
    1e-9,
  );
  for (const stage of data.stages) {
    list.append(h("h3", { id: `stage-${stage.name}` }, stage.name));
    list.append(
      h(
        "ul",
        { class: "options", role: "listbox", "aria-labelledby": `stage-${stage.name}` },
        stage.versions
          .slice(1)
          .map((version, k) => passOption(page, stage, version, k + 1, slowest)),
      ),
    );
  }
  const select = (stageName, index, focus) => {
    const stage = data.stages.find((each) => each.name === stageName) ?? data.stages[0];
    const number = Math.min(
      Math.max(1, Number(index) || firstChanged(stage)),
      stage.versions.length - 1,
    );
    if (number < 1) return replace(detail, h("p", { class: "muted" }, "This stage has no passes."));
    for (const option of list.querySelectorAll("[role=option]")) {
      const chosen = option.dataset.stage === stage.name && Number(option.dataset.index) === number;
      option.setAttribute("aria-selected", String(chosen));
      if (chosen) stopAt(list, "[role=option]", option);
      if (chosen && focus) option.focus();
      if (chosen) option.scrollIntoView({ block: "nearest" });
    }
    page.remember("passes", stage.name, number);
    replace(detail, passDetail(page, stage, number));
  };
  roving(list, "[role=option]", {
    onFocus: (option) => select(option.dataset.stage, option.dataset.index, false),
  });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) select(option.dataset.stage, option.dataset.index, true);
  });
  return {
    element: h("div", { class: "columns" }, list, detail),
    show: (stage, index) => select(stage, index, false),
  };
}

function firstChanged(stage) {
  const found = stage.versions.findIndex((version) => version.changes.length);
  return found > 0 ? found : 1;
}

function passOption(page, stage, version, index, slowest) {
  const changed = version.changes.length;
  const time = version.seconds?.[0];
  return h(
    "li",
    {
      role: "option",
      class: changed ? "" : "quiet",
      "data-stage": stage.name,
      "data-index": index,
      tabindex: "-1",
      "aria-selected": "false",
      "aria-label": `${index} ${version.name}, ${changed ? `${changed} functions changed` : "no change"}${time === undefined ? "" : `, ${seconds(time)}`}${version.broken ? ", broken" : ""}`,
    },
    h("span", { class: "number" }, String(index).padStart(2, "0")),
    h(
      "span",
      { class: "name" },
      version.name,
      version.broken ? h("span", { class: "bad" }, " ▲") : null,
    ),
    h("span", { class: "time" }, time === undefined ? "" : seconds(time)),
    time === undefined
      ? null
      : h("span", { class: "bar", style: `--part:${(time / slowest).toFixed(4)}` }),
  );
}

function passDetail(page, stage, index) {
  const { data } = page;
  const version = stage.versions[index];
  const statistics = Object.entries(version.statistics ?? {});
  const parameters = Object.entries(version.parameters ?? {}).filter(
    ([, value]) => value !== null && JSON.stringify(value) !== "[]",
  );
  const remarks = version.remarks ?? [];
  return [
    h("h2", {}, `${stage.name} / ${String(index).padStart(2, "0")} ${version.name}`),
    h(
      "p",
      { class: "chips" },
      version.fidelity ? h("span", { class: "chip" }, `fidelity: ${version.fidelity}`) : null,
      version.seconds ? h("span", { class: "chip" }, seconds(version.seconds[0])) : null,
      version.seconds?.[1]
        ? h("span", { class: "chip" }, `verification: ${seconds(version.seconds[1])}`)
        : null,
      statistics.map(([what, times]) => h("span", { class: "chip" }, `${what}: ${times}`)),
    ),
    version.search ? searchTable(version.search) : null,
    version.error ? errorLine(version) : null,
    parameters.length
      ? h(
          "details",
          {},
          h("summary", {}, "parameters"),
          h(
            "dl",
            { class: "facts" },
            parameters.map(([name, value]) => [
              h("dt", {}, name),
              h("dd", {}, typeof value === "string" ? value : JSON.stringify(value)),
            ]),
          ),
        )
      : null,
    remarks.length
      ? h(
          "details",
          {},
          h("summary", {}, `${remarks.length} ${remarks.length === 1 ? "remark" : "remarks"}`),
          h(
            "ul",
            { class: "remarks" },
            remarks.map((line) => h("li", {}, line)),
          ),
        )
      : null,
    version.changes.length
      ? null
      : h("p", { class: "muted" }, "The program is the one before this pass."),
    version.changes.map((change) => diffSection(data, change)),
  ];
}

/** Modelled cost of the forms that search compared, per function. */
function searchTable(search) {
  const titles = ["function", "form", "modelled time", "bytes", "operations", "against the fixed order"];
  const rows = Object.entries(search).flatMap(([graph, forms]) => {
    const fixed = forms.ordered?.nanoseconds;
    return Object.entries(forms)
      .sort((a, b) => a[0].localeCompare(b[0], "en"))
      .map(([form, cost]) =>
        h(
          "tr",
          { class: form === "chosen" ? "chosen" : "" },
          h("td", {}, h("code", {}, `@${graph}`)),
          h("td", {}, form),
          h(
            "td",
            { class: "right" },
            cost.nanoseconds === undefined ? "–" : seconds(cost.nanoseconds * 1e-9),
          ),
          h("td", { class: "right" }, cost.bytes === undefined ? "–" : bytes(cost.bytes)),
          h("td", { class: "right" }, cost.operations === undefined ? "–" : decimal(cost.operations)),
          h(
            "td",
            { class: "right" },
            fixed && cost.nanoseconds !== undefined
              ? `${cost.nanoseconds > fixed ? "+" : ""}${((100 * cost.nanoseconds) / fixed - 100).toFixed(1)} %`
              : "–",
          ),
        ),
      );
  });
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "largest" },
      h("caption", {}, "What search compared"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          titles.map((title, k) => h("th", { scope: "col", class: k > 1 ? "right" : "" }, title)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

function errorLine({ error, broken }) {
  const worst = error.worst ?? {};
  return h(
    "p",
    { class: broken ? "error bad" : "error" },
    broken ? `Broken: ${broken}. ` : "",
    `Error: max ${figure(error.max)}, rms ${figure(error.rms)}, bound ${figure(error.bound)}`,
    worst.op
      ? `; worst at %${worst.node} ${worst.op} of @${worst.graph}${worst.location ? `, ${worst.location}` : ""}`
      : "",
  );
}
