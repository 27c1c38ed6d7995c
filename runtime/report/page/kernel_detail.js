// What is said of one kernel, and its text.

function kernelDetail(page, stage, name, text) {
  const { plan } = stage;
  const kernel = plan.kernels.find((each) => each.name === name);
  const number = plan.kernels.indexOf(kernel);
  const cost = costByKernel(stage.cost).get(name);
  const launches = plan.launches.flatMap((launch, k) =>
    launch[0] === number ? [[k, launch]] : [],
  );
  return [
    h("h2", {}, name),
    h(
      "p",
      { class: "chips" },
      [
        `family ${kernel.family}`,
        kernel.kind,
        `${kernel.blocks} blocks`,
        cost
          ? `modelled ${microseconds(cost.microseconds)} in ${count(cost.launches)} launches`
          : null,
        cost ? `bound: ${cost.bound}` : null,
      ]
        .filter(Boolean)
        .map((each) => h("span", { class: "chip" }, each)),
    ),
    h(
      "details",
      {},
      h("summary", {}, `${kernel.arguments.length} arguments`),
      h(
        "div",
        { class: "scroll" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["name", "format", "direction", "elements"].map((title) =>
                h("th", { scope: "col" }, title),
              ),
            ),
          ),
          h(
            "tbody",
            {},
            kernel.arguments.map(([argument, dtype, direction, elements]) =>
              h(
                "tr",
                {},
                h("td", {}, h("code", {}, argument)),
                h("td", {}, dtype),
                h("td", {}, direction),
                h("td", { class: "right" }, count(elements)),
              ),
            ),
          ),
        ),
      ),
    ),
    h(
      "details",
      {},
      h("summary", {}, `${launches.length} launches`),
      h(
        "ol",
        { class: "launches" },
        launches.map(([k, launch]) =>
          h(
            "li",
            { value: k },
            h("strong", {}, plan.labels[launch[1]]),
            " ",
            h(
              "span",
              { class: "muted" },
              launch
                .slice(2)
                .map((buffer) => plan.buffers[buffer][0])
                .join(", "),
            ),
          ),
        ),
      ),
    ),
    text === undefined
      ? h("p", { class: "muted" }, "The dump has no text of this kernel.")
      : sourceText(text, `text of ${name}`),
  ];
}

function sourceText(text, label) {
  return h(
    "pre",
    { class: "cpp", tabindex: "0", "aria-label": label },
    h(
      "code",
      {},
      cppLines(text).map((pieces) =>
        h(
          "span",
          { class: "line" },
          pieces.map(([kind, part]) => (kind ? h("span", { class: kind }, part) : part)),
          "\n",
        ),
      ),
    ),
  );
}
