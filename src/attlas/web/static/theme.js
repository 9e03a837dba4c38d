// The theme that the reader chose, before anything is drawn.
const chosen = localStorage.getItem("attlas-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
