// Sphinx's scores, but the pages that tell a user what to do come before those that list what was found, a question of
// the FAQ before them, and a page whose title begins with the query before all.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const query = new URLSearchParams(location.search).get("q").trim().toLowerCase();
    const found = ["benchmarks", "changelog", "conformance", "conformance_rules", "contributing", "matrix", "proofs",
      "reliability"];
    return score + ({ guide: 4, faq: anchor ? 8 : 3, errors: 3, pydlpack: 3, index: 1 }[page] ?? 0) -
      (found.includes(page) ? 4 : 0) + (title.toLowerCase().startsWith(query) ? 9 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
