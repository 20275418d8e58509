// Sphinx's scores, but the pages that tell a user what to do come before those that list what was found, and a question
// of the FAQ before all.
var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score + ({ guide: 3, errors: 3, gpus: 8, pydlpack: 3, faq: anchor ? 8 : 3, index: 1 }[page] ?? 0) -
    (["benchmarks", "changelog", "conformance", "conformance_rules", "contributing", "matrix", "proofs", "reliability"]
      .includes(page) ? 4 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
