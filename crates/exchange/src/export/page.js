(function () {
  var box = document.getElementById("q"), count = document.getElementById("n");
  var items = Array.prototype.slice.call(document.querySelectorAll("[data-item]"));
  var texts = items.map(function (i) { return i.textContent.toLowerCase(); });
  function search() {
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean), shown = 0;
    items.forEach(function (item, at) {
      var hit = words.every(function (w) { return texts[at].indexOf(w) >= 0; });
      item.classList.toggle("gone", !hit);
      if (!hit) { return; }
      shown += 1;
      item.querySelectorAll("details").forEach(function (d) {
        var inside = words.length && words.every(function (w) { return d.textContent.toLowerCase().indexOf(w) >= 0; });
        if (inside) { d.open = true; } else if (words.length) { d.open = false; }
      });
    });
    count.textContent = words.length ? shown + " of " + items.length : items.length + " items";
  }
  box.addEventListener("input", search);
  document.getElementById("all").addEventListener("click", function () {
    var folds = document.querySelectorAll("main details"), open = !(folds[0] && folds[0].open);
    folds.forEach(function (d) { d.open = open; });
  });
  search();
})();
