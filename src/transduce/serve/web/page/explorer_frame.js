// Starts the explorer in its frame, once the page has sent {attention, isWhole}: the data, and whether all of it is shown.

window.addEventListener("message", ({ origin, data }) => {
  if (origin !== location.origin || document.getElementById("explorer")) return;
  document.documentElement.classList.add("framed");
  document.getElementById("more").open = data.isWhole;
  document.getElementById("data").textContent = JSON.stringify(data.attention);
  const script = document.createElement("script");
  Object.assign(script, { id: "explorer", src: "explorer.js" });
  document.body.append(script);
});
