// Accuracy: how far each program is from the float64 truth.

function accuracyView(page) {
  const { data } = page;
  const entries = data.stages.flatMap((stage) =>
    stage.versions.flatMap((version, index) =>
      version.error ? [{ stage, index, version, error: version.error }] : [],
    ),
  );
  if (!entries.length)
    return {
      element: h(
        "p",
        { class: "empty-note" },
        "Nothing was verified. ",
        h("code", {}, "ascendfx compile --verify each-pass --dump-dir DIRECTORY"),
        " measures the error of every pass against float64.",
      ),
      show: () => {},
    };
  const values = entries
    .flatMap(({ error }) => [error.max, error.rms, error.bound])
    .filter((value) => typeof value === "number" && value > 0);
  const low = Math.floor(Math.log10(Math.min(...values, 1)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values, 1e-300))));
  const part = (value) =>
    typeof value === "number" && value > 0
      ? Math.min(1, Math.max(0, (Math.log10(value) - low) / (high - low)))
      : value === 0
        ? 0
        : 1;
  const broken = entries.filter(({ version }) => version.broken);
  const rows = entries.map(({ stage, index, version, error }) => {
    const worst = error.worst ?? {};
    return h(
      "tr",
      { class: version.broken ? "bad" : "" },
      h(
        "td",
        {},
        h(
          "a",
          { href: page.link("passes", stage.name, index) },
          `${stage.name} / ${String(index).padStart(2, "0")} ${version.name}`,
        ),
      ),
      h("td", { class: "right" }, figure(error.max)),
      h("td", { class: "right" }, figure(error.rms)),
      h("td", { class: "right" }, figure(error.bound)),
      h(
        "td",
        {},
        h(
          "span",
          { class: "scale", "aria-hidden": "true" },
          h("span", { class: "reach", style: `--part:${part(error.max).toFixed(4)}` }),
          h("span", { class: "limit", style: `--part:${part(error.bound).toFixed(4)}` }),
        ),
        version.broken
          ? h("span", { class: "bad" }, "broken")
          : h("span", { class: "muted" }, "kept"),
      ),
      h(
        "td",
        {},
        worst.op
          ? [
              h(
                "a",
                { href: page.link("graph", stage.name, index, worst.graph, worst.node) },
                `@${worst.graph} %${worst.node} ${worst.op}`,
              ),
              h("br"),
              h("span", { class: "muted" }, shortPlace(worst.location)),
            ]
          : "–",
      ),
    );
  });
  return {
    element: h(
      "div",
      {},
      h(
        "p",
        { class: broken.length ? "error bad" : "error" },
        broken.length
          ? `First broken pass: ${broken[0].stage.name} / ${broken[0].version.name} (${broken.length} of ${entries.length})`
          : `All ${entries.length} measured passes keep their fidelity.`,
      ),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "error per pass" },
        h(
          "table",
          { class: "accuracy" },
          h(
            "caption",
            {},
            `Error against float64; the bar ends at the largest difference, the tick is what rounding explains; from 1e${low} to 1e${high}, logarithmic.`,
          ),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["pass", "max", "rms", "bound", "max and bound", "worst place"].map((title, k) =>
                h("th", { scope: "col", class: k > 0 && k < 4 ? "right" : "" }, title),
              ),
            ),
          ),
          h("tbody", {}, rows),
        ),
      ),
      layerErrors(entries),
    ),
    show: () => {},
  };
}

function shortPlace(text) {
  return String(text ?? "").replace(/^.*[\\/](?=[^\\/]+:\d+)/, "");
}

/** Each layer of the last program of each stage; verification starts each from the truth. */
function layerErrors(entries) {
  const last = new Map();
  for (const entry of entries) if (entry.error.layers?.length) last.set(entry.stage.name, entry);
  return [...last.values()].map(({ stage, version, error }) => {
    const most = Math.max(
      ...error.layers.map((layer) => (typeof layer.max === "number" ? layer.max : 0)),
      1e-300,
    );
    return h(
      "section",
      {},
      h("h2", {}, `Error per layer after ${stage.name} / ${version.name}`),
      h(
        "div",
        { class: "scroll" },
        h(
          "table",
          { class: "accuracy" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["layer", "max", "rms", "bound", "max"].map((title, k) =>
                h("th", { scope: "col", class: k > 0 && k < 4 ? "right" : "" }, title),
              ),
            ),
          ),
          h(
            "tbody",
            {},
            error.layers.map((layer) =>
              h(
                "tr",
                { class: layer.broken ? "bad" : "" },
                h("td", {}, h("code", {}, layer.module)),
                h("td", { class: "right" }, figure(layer.max)),
                h("td", { class: "right" }, figure(layer.rms)),
                h("td", { class: "right" }, figure(layer.bound)),
                h(
                  "td",
                  {},
                  h(
                    "span",
                    { class: "scale", "aria-hidden": "true" },
                    h("span", {
                      class: "reach",
                      style: `--part:${(typeof layer.max === "number" ? layer.max / most : 1).toFixed(4)}`,
                    }),
                  ),
                ),
              ),
            ),
          ),
        ),
      ),
    );
  });
}
