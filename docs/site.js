// From the search a reader comes to the section that has most of the words, in its heading or below, rather than to the
// top of the page. sphinx_highlight.js marks the words.
window.addEventListener("load", () => setTimeout(() => {
  const words = (part) => new Set([...part.querySelectorAll(".highlighted")].map((it) => it.textContent.toLowerCase())).size;
  const score = (section) => words(section) + words(section.firstElementChild);
  const sections = [...document.querySelectorAll("article section:not(:has(section))")];
  const best = Math.max(...sections.map(score));
  if (best && !location.hash) sections.find((section) => score(section) === best).scrollIntoView({ behavior: "instant" });
}, 100));
