// The picture of the fleet on a canvas: a tile for each host, in blocks by group. From afar the tiles are the pixels of
// one small picture that is drawn at once; near by they are drawn one by one.

const GAP = 1; // Between blocks, in tiles.
const HEAD = 1; // Above a block, in tiles, for its name.
const DRAWN_MAX = 9000; // So many tiles are drawn one by one.
const FLASH_MS = 900;
const STILL = matchMedia('(prefers-reduced-motion: reduce)');

export class Tiles {
  // `choose(host)` is called with the host that was clicked, `hover(host, x, y)` with the one below the pointer.
  constructor(canvas, { choose, hover }) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d', { alpha: false });
    this.handlers = { choose, hover };
    this.blocks = [];
    this.view = { x: 0, y: 0, scale: 1 };
    this.isFitted = true;
    this.flashing = new Set();
    this.frames = [];
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas.parentElement);
    this.listen();
  }

  // `groups` is a list of `[name, hosts]`, `colourOf` gives a host's colour as `[red, green, blue]`, `palette` the others.
  show(groups, colourOf, palette) {
    this.groups = groups;
    this.colourOf = colourOf;
    this.palette = palette;
    this.layOut();
    this.paintAll();
    if (this.isFitted) this.fit();
    this.draw();
  }

  // Places blocks in rows, so that the whole has about the shape of the canvas.
  layOut() {
    const { width, height } = this.size();
    const widest = this.groups.reduce((most, [, hosts]) => Math.max(most, columnsOf(hosts)), 1);
    const all = this.groups.reduce((sum, [, hosts]) => sum + columnsOf(hosts) + GAP, 0);
    let best = 0;
    this.wanted = widest;
    for (let wanted = widest; ; wanted = Math.min(all, Math.ceil(wanted * 1.15))) {
      this.place(wanted);
      const scale = Math.min(width / (this.wide + 2), height / (this.high + 2));
      if (scale > best * 1.0001) [best, this.wanted] = [scale, wanted];
      if (wanted >= all) break;
    }
    this.place(this.wanted);
    this.at = new Map();
    for (const block of this.blocks) block.hosts.forEach((host, index) => this.at.set(host.slot, [block, index]));
  }

  // Places blocks in rows of at most so many tiles.
  place(wanted) {
    this.blocks = [];
    let [x, y, tallest] = [0, 0, 0];
    this.wide = 1;
    for (const [name, hosts] of this.groups) {
      const columns = columnsOf(hosts);
      const rows = Math.ceil(hosts.length / columns);
      if (x > 0 && x + columns > wanted) [x, y, tallest] = [0, y + tallest + GAP, 0];
      const block = { name, hosts, x, y: y + HEAD, columns, rows };
      this.blocks.push(block);
      x += columns + GAP;
      tallest = Math.max(tallest, rows + HEAD);
      this.wide = Math.max(this.wide, x - GAP);
    }
    this.high = Math.max(1, y + tallest);
  }

  size() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    return { width: Math.max(1, box.width), height: Math.max(1, box.height) };
  }

  resize() {
    const { width, height } = this.size();
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (this.isFitted && this.groups) {
      this.layOut();
      this.paintAll();
      this.fit();
    }
    this.draw();
  }

  fit() {
    const { width, height } = this.size();
    const scale = Math.min(width / (this.wide + 2), height / (this.high + 2), 64);
    this.view = { scale, x: (width - this.wide * scale) / 2, y: Math.max(scale * 0.3, (height - this.high * scale) / 2) };
    if (scale === 64) this.view.y = 8;
    this.isFitted = true;
  }

  paintAll() {
    this.picture = new OffscreenCanvas(Math.max(1, this.wide), Math.max(1, this.high));
    this.pixels = this.picture.getContext('2d', { alpha: false });
    this.image = this.pixels.createImageData(this.picture.width, this.picture.height);
    const words = new Uint32Array(this.image.data.buffer);
    words.fill(word(this.palette.back));
    this.words = words;
    for (const { hosts, x, y, columns } of this.blocks) {
      for (let index = 0; index < hosts.length; index += 1) {
        words[(y + Math.floor(index / columns)) * this.picture.width + x + (index % columns)] = word(this.colourOf(hosts[index]));
      }
    }
    this.isStale = true;
  }

  paint(slot, now) {
    const found = this.at.get(slot);
    if (!found) return;
    const [block, index] = found;
    const host = block.hosts[index];
    const age = (now - host.flash) / FLASH_MS;
    let colour = this.colourOf(host);
    if (age < 1 && !STILL.matches) {
      colour = colour.map((part, channel) => part + (this.palette.flash[channel] - part) * (1 - age));
      this.flashing.add(slot);
    } else {
      this.flashing.delete(slot);
    }
    this.words[(block.y + Math.floor(index / block.columns)) * this.picture.width + block.x + (index % block.columns)] = word(colour);
    this.isStale = true;
  }

  // These hosts have changed.
  change(slots) {
    const now = performance.now();
    slots.forEach((slot) => this.paint(slot, now));
    this.draw();
  }

  draw() {
    if (this.isDrawing || !this.groups) return;
    this.isDrawing = true;
    requestAnimationFrame((now) => {
      this.isDrawing = false;
      this.render(now);
      this.frames.push(now);
      if (this.frames.length > 300) this.frames.shift();
      if (this.flashing.size > 0) setTimeout(() => {
        const time = performance.now();
        [...this.flashing].forEach((slot) => this.paint(slot, time));
        this.draw();
      }, 60);
    });
  }

  render() {
    const { context, view, palette } = this;
    const ratio = devicePixelRatio || 1;
    const { width, height } = this.size();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = css(palette.back);
    context.fillRect(0, 0, width, height);
    const { x, y, scale } = view;
    const tiles = (width / scale) * (height / scale);
    if (scale < 4 || Math.min(tiles, this.at.size) > DRAWN_MAX) {
      if (this.isStale) this.pixels.putImageData(this.image, 0, 0);
      this.isStale = false;
      context.imageSmoothingEnabled = scale < 1;
      context.drawImage(this.picture, x, y, this.wide * scale, this.high * scale);
    } else {
      this.renderTiles(width, height);
    }
    this.renderNames(width, height);
    if (this.chosen !== undefined) this.renderChosen();
  }

  renderTiles(width, height) {
    const { context, view: { x, y, scale } } = this;
    const gap = scale > 6 ? Math.min(3, scale * 0.12) : 0;
    const hasText = scale >= 44;
    context.font = `${Math.min(12, scale / 5)}px system-ui, sans-serif`;
    for (const block of this.blocks) {
      const [left, top] = [x + block.x * scale, y + block.y * scale];
      if (left > width || top > height || left + block.columns * scale < 0 || top + block.rows * scale < 0) continue;
      const from = Math.max(0, Math.floor(-top / scale));
      const to = Math.min(block.rows, Math.ceil((height - top) / scale));
      for (let index = from * block.columns; index < Math.min(block.hosts.length, to * block.columns); index += 1) {
        const tileX = left + (index % block.columns) * scale;
        if (tileX > width || tileX + scale < 0) continue;
        const tileY = top + Math.floor(index / block.columns) * scale;
        const at = (block.y + Math.floor(index / block.columns)) * this.picture.width + block.x + (index % block.columns);
        const value = this.words[at];
        context.fillStyle = `rgb(${value & 255},${(value >> 8) & 255},${(value >> 16) & 255})`;
        context.fillRect(tileX, tileY, scale - gap, scale - gap);
        if (hasText) {
          const isDark = (value & 255) * 0.3 + ((value >> 8) & 255) * 0.59 + ((value >> 16) & 255) * 0.11 < 140;
          context.fillStyle = isDark ? '#fff' : '#111';
          context.fillText(block.hosts[index].host, tileX + 3, tileY + scale / 2, scale - gap - 5);
        }
      }
    }
  }

  renderNames(width, height) {
    const { context, view: { x, y, scale }, palette } = this;
    const size = Math.max(9, Math.min(14, scale * 0.8));
    context.font = `600 ${size}px system-ui, sans-serif`;
    context.fillStyle = css(palette.text);
    for (const block of this.blocks) {
      const [left, top, wide] = [x + block.x * scale, y + block.y * scale, (block.columns + GAP) * scale];
      if (wide < 34 || HEAD * scale < 9 || left > width || top > height + 20 || left + wide < 0 || top < 0) continue;
      context.fillText(shorten(context, block.name, wide - 4), left, top - 3);
    }
  }

  renderChosen() {
    const found = this.at.get(this.chosen);
    if (!found) return;
    const [block, index] = found;
    const { context, view: { x, y, scale }, palette } = this;
    context.strokeStyle = css(palette.chosen);
    context.lineWidth = 3;
    const size = Math.max(8, scale);
    context.strokeRect(x + (block.x + (index % block.columns)) * scale - 2, y + (block.y + Math.floor(index / block.columns)) * scale - 2, size + 3, size + 3);
  }

  hostAt(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect();
    const worldX = (clientX - box.left - this.view.x) / this.view.scale;
    const worldY = (clientY - box.top - this.view.y) / this.view.scale;
    for (const block of this.blocks) {
      const [column, row] = [Math.floor(worldX - block.x), Math.floor(worldY - block.y)];
      if (column < 0 || row < 0 || column >= block.columns || row >= block.rows) continue;
      const host = block.hosts[row * block.columns + column];
      return host ? [host, block.name] : null;
    }
    return null;
  }

  zoom(factor, centreX, centreY) {
    const { width, height } = this.size();
    const [cx, cy] = [centreX ?? width / 2, centreY ?? height / 2];
    const least = Math.min(width / (this.wide + 2), height / (this.high + 2), 64) * 0.5;
    const scale = Math.max(least, Math.min(90, this.view.scale * factor));
    const ratio = scale / this.view.scale;
    this.view = { scale, x: cx - (cx - this.view.x) * ratio, y: cy - (cy - this.view.y) * ratio };
    this.isFitted = false;
    this.draw();
  }

  move(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.isFitted = false;
    this.draw();
  }

  // Marks the host in this slot, and moves it into sight.
  mark(slot) {
    this.chosen = slot;
    const found = this.at?.get(slot);
    if (found) {
      const [block, index] = found;
      const { width, height } = this.size();
      const px = this.view.x + (block.x + (index % block.columns)) * this.view.scale;
      const py = this.view.y + (block.y + Math.floor(index / block.columns)) * this.view.scale;
      if (px < 0 || px > width - 8) this.view.x += width / 2 - px;
      if (py < 0 || py > height - 8) this.view.y += height / 2 - py;
    }
    this.draw();
  }

  // The host that is `step` further in the order of the picture; with rows, so many rows below.
  neighbour(dx, dy) {
    const found = this.at.get(this.chosen);
    if (!found) return this.blocks[0]?.hosts[0];
    const [block, index] = found;
    const next = index + dx + dy * block.columns;
    if (next >= 0 && next < block.hosts.length) return block.hosts[next];
    const other = this.blocks[this.blocks.indexOf(block) + (next < 0 ? -1 : 1)];
    return next < 0 ? other?.hosts.at(-1) : other?.hosts[0];
  }

  listen() {
    const { canvas } = this;
    let drag = null;
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      drag = { x: event.clientX, y: event.clientY, far: 0 };
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag) {
        const found = this.hostAt(event.clientX, event.clientY);
        const box = canvas.getBoundingClientRect();
        this.handlers.hover(found, event.clientX - box.left, event.clientY - box.top);
        return;
      }
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      drag = { x: event.clientX, y: event.clientY, far: drag.far + Math.abs(dx) + Math.abs(dy) };
      if (drag.far > 4) this.move(dx, dy);
    });
    canvas.addEventListener('pointerup', (event) => {
      const isClick = drag && drag.far <= 4;
      drag = null;
      const found = isClick && this.hostAt(event.clientX, event.clientY);
      if (found) this.handlers.choose(found[0]);
    });
    canvas.addEventListener('pointerleave', () => this.handlers.hover(null));
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => {
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const step = steps[event.key];
      if (step && event.shiftKey) this.move(-step[0] * 80, -step[1] * 80);
      else if (step) {
        const host = this.neighbour(...step);
        if (host) {
          this.mark(host.slot);
          const [block] = this.at.get(host.slot);
          this.handlers.hover([host, block.name], 12, 12);
        }
      } else if (event.key === 'Enter' && this.chosen !== undefined) {
        const found = this.at.get(this.chosen);
        if (found) this.handlers.choose(found[0].hosts[found[1]]);
      } else if (event.key === '+' || event.key === '=') this.zoom(1.4);
      else if (event.key === '-') this.zoom(1 / 1.4);
      else if (event.key === '0') {
        this.fit();
        this.draw();
      } else return;
      event.preventDefault();
    });
  }

  end() {
    this.observer.disconnect();
    this.groups = null;
  }
}

const columnsOf = (hosts) => Math.max(1, Math.ceil(Math.sqrt(hosts.length * 1.6)));
const word = ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red;
const css = ([red, green, blue]) => `rgb(${red},${green},${blue})`;

function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= Math.max(1, Math.floor(end / 8));
  return `${text.slice(0, end)}…`;
}
