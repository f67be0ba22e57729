"""Pictures of a terminal's screen: as SVG, and as PNG if Pillow is installed.

`Screen` reads what a tmux client draws when it attaches, which is simpler than what programs write. `tmux capture-pane` is not used,
because it leaves out the background of cells that were erased. Every run of text in an SVG is stretched to the width of its cells, so that no font shifts what follows.
"""
import os, re, unicodedata
from html import escape

GROUNDS = {"dark": ((230, 237, 243), (13, 17, 23)), "light": ((31, 35, 40), (255, 255, 255))}
SIXTEEN = [(48, 54, 61), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196),
           (110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221), (240, 246, 252)]
SIXTEEN_LIGHT = [(36, 41, 47), (207, 34, 46), (17, 99, 41), (77, 45, 0), (9, 105, 218), (130, 80, 223), (27, 124, 131), (110, 119, 129),
                 (87, 96, 106), (164, 14, 38), (26, 127, 55), (99, 60, 1), (33, 139, 255), (164, 117, 249), (49, 146, 170), (140, 149, 159)]
CELL, SIZE, BASELINE, MARGIN = (8.4, 18.0), 14, 13.5, 12.0
FONTS = [("/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf", "/usr/share/fonts/truetype/dejavu/DejaVuSansMono-Bold.ttf",
          "/usr/share/fonts/truetype/dejavu/DejaVuSansMono-Oblique.ttf")]
WIDE = ["/usr/share/fonts/truetype/vlgothic/VL-Gothic-Regular.ttf", "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
        "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"]


def indexed(n, sixteen):
    if n < 16:
        return sixteen[n]
    if n < 232:
        level = [0, 95, 135, 175, 215, 255]
        return level[(n - 16) // 36], level[(n - 16) // 6 % 6], level[(n - 16) % 6]
    return (8 + 10 * (n - 232),) * 3


def width(char):
    return 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Look:
    """Colours and modifiers that the next text gets."""

    def __init__(self):
        self.text = self.behind = None
        self.on = set()

    def apply(self, codes, sixteen):
        codes = [int(c or 0) for c in codes.replace(":", ";").split(";")] if codes else [0]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()
            elif code in (1, 2, 3, 4, 7, 9):
                self.on.add(code)
            elif code in (22, 23, 24, 27, 29):
                self.on -= {22: {1, 2}, 23: {3}, 24: {4}, 27: {7}, 29: {9}}[code]
            elif 30 <= code < 38 or 90 <= code < 98:
                self.text = sixteen[code - 30 if code < 90 else code - 82]
            elif 40 <= code < 48 or 100 <= code < 108:
                self.behind = sixteen[code - 40 if code < 100 else code - 92]
            elif code in (38, 48) and codes:
                if codes[0] == 5:
                    colour, codes = indexed(codes[1], sixteen), codes[2:]
                else:
                    colour, codes = tuple(codes[1:4]), codes[4:]
                if code == 38:
                    self.text = colour
                else:
                    self.behind = colour
            elif code == 39:
                self.text = None
            elif code == 49:
                self.behind = None

    def colours(self, ground):
        text, behind = self.text or ground[0], self.behind or ground[1]
        if 7 in self.on:
            text, behind = behind, text
        if 2 in self.on:
            text = tuple((3 * a + 2 * b) // 5 for a, b in zip(text, behind))
        return text, behind


class Screen:
    """Rows of cells: `(text, columns, text colour, background, modifiers)`. The cell after a wide one has no columns."""
    TOKEN = re.compile(r"\x1b\[([?>=]?)([\d;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b(.)|([^\x1b])", re.S)

    def __init__(self, columns, rows, kind):
        self.sixteen, self.ground = SIXTEEN_LIGHT if kind == "light" else SIXTEEN, GROUNDS[kind]
        self.columns, self.look, self.x, self.y = columns, Look(), 0, 0
        self.rows = [[self.blank()] * columns for _ in range(rows)]
        self.top, self.bottom = 0, rows

    def blank(self):
        return (" ", 1, *Look.colours(self.look, self.ground), frozenset())

    def feed(self, text):
        for private, numbers, final, escape, char in self.TOKEN.findall(text):
            if char:
                self.put(char)
            elif escape == "M":
                self.scroll(self.top, -1)
            elif final == "m" and not private:
                self.look.apply(numbers, self.sixteen)
            elif final and not private:
                self.control(final, [int(n or 0) for n in numbers.split(";")])

    def put(self, char):
        if char == "\n":
            if self.y == self.bottom - 1:
                self.scroll(self.top, 1)
            else:
                self.y = min(self.y + 1, len(self.rows) - 1)
        elif char == "\r":
            self.x = 0
        elif char == "\b":
            self.x = max(self.x - 1, 0)
        elif char >= " ":
            wide = width(char)
            if not wide and self.x:
                at = self.x - 1 if self.rows[self.y][self.x - 1][1] else self.x - 2
                self.rows[self.y][at] = (self.rows[self.y][at][0] + char, *self.rows[self.y][at][1:])
            elif wide and self.x + wide <= self.columns:
                cell = (char, wide, *self.look.colours(self.ground), frozenset(self.look.on))
                self.rows[self.y][self.x:self.x + wide] = [cell, ("", 0, *cell[2:])][:wide]
                self.x += wide

    def scroll(self, top, count):
        """Moves the rows from `top` to the end of the scrolled region up, or down if `count` is negative."""
        region = self.rows[top:self.bottom]
        fresh = [[self.blank()] * self.columns for _ in range(min(abs(count), len(region)))]
        self.rows[top:self.bottom] = region[len(fresh):] + fresh if count > 0 else fresh + region[:len(region) - len(fresh)]

    def control(self, final, numbers):
        first, row = numbers[0] or 1, self.rows[self.y]
        if final in "Hf":
            self.y, self.x = min(first, len(self.rows)) - 1, min((numbers + [1])[1] or 1, self.columns) - 1
        elif final == "d":
            self.y = min(first, len(self.rows)) - 1
        elif final == "G":
            self.x = min(first, self.columns) - 1
        elif final in "ABCD":
            self.y = max(0, min(self.y + {"A": -first, "B": first}.get(final, 0), len(self.rows) - 1))
            self.x = max(0, min(self.x + {"C": first, "D": -first}.get(final, 0), self.columns - 1))
        elif final == "r":
            self.top, self.bottom = first - 1, (numbers + [0])[1] or len(self.rows)
            self.x = self.y = 0
        elif final in "ST":
            self.scroll(self.top, first if final == "S" else -first)
        elif final in "LM":
            self.scroll(self.y, first if final == "M" else -first)
        elif final == "P":
            row[self.x:self.x + first] = []
            row += [self.blank()] * (self.columns - len(row))
        elif final == "@":
            row[self.x:self.x] = [self.blank()] * first
            del row[self.columns:]
        elif final == "K":
            begin, end = ((self.x, self.columns), (0, self.x + 1), (0, self.columns))[numbers[0]]
            row[begin:end] = [self.blank()] * (end - begin)
        elif final == "X":
            row[self.x:self.x + first] = [self.blank()] * min(first, self.columns - self.x)
        elif final == "J":
            for y in range(self.y + 1 if numbers[0] == 0 else 0, len(self.rows)):
                self.rows[y] = [self.blank()] * self.columns
            if numbers[0] == 0:
                row[self.x:] = [self.blank()] * (self.columns - self.x)

    def text(self):
        return "\n".join("".join(cell[0] for cell in row).rstrip() for row in self.rows) + "\n"


def runs(row):
    """Cells of the same look, joined; those that are not ASCII alone."""
    at, out = 0, []
    for text, wide, fore, back, on in row:
        last = out[-1] if out else None
        if last and last[3:] == (fore, back, on) and text.isascii() and last[1].isascii():
            out[-1] = (last[0], last[1] + text, last[2] + wide, fore, back, on)
        else:
            out.append((at, text, wide, fore, back, on))
        at += wide
    return out


def svg(screen):
    def colour(c):
        return "#%02x%02x%02x" % c
    ground, columns, rows = screen.ground, screen.columns, len(screen.rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * CELL[0] + 2 * MARGIN:.1f} {rows * CELL[1] + 2 * MARGIN:.1f}" '
           f"font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"{SIZE}\" xml:space=\"preserve\">",
           f'<rect width="100%" height="100%" rx="8" fill="{colour(ground[1])}"/>']
    for y, row in enumerate(screen.rows):
        top, at = y * CELL[1] + MARGIN, 0
        while at < len(row):  # Bands first: one rectangle for neighbours with the same background.
            end = at
            while end < len(row) and row[end][3] == row[at][3]:
                end += 1
            if row[at][3] != ground[1]:
                left = sum(cell[1] for cell in row[:at])
                wide = sum(cell[1] for cell in row[at:end])
                out.append(f'<rect x="{left * CELL[0] + MARGIN:.1f}" y="{top:.1f}" width="{wide * CELL[0]:.1f}" height="{CELL[1]:g}" '
                           f'fill="{colour(row[at][3])}"/>')
            at = end
        for left, text, wide, fore, _, on in runs(row):
            shown = text.strip(" ")
            if not shown:
                continue
            left += len(text) - len(text.lstrip(" "))
            wide -= len(text) - len(shown)
            more = "".join(value for code, value in ((1, ' font-weight="bold"'), (3, ' font-style="italic"'),
                                                     (4, ' text-decoration="underline"'), (9, ' text-decoration="line-through"')) if code in on)
            out.append(f'<text x="{left * CELL[0] + MARGIN:.1f}" y="{top + BASELINE:.1f}" textLength="{wide * CELL[0]:.1f}" '
                       f'lengthAdjust="spacingAndGlyphs" fill="{colour(fore)}"{more}>{escape(shown, quote=False)}</text>')
    return "\n".join(out + ["</svg>\n"])


def png(screen, path):
    from PIL import Image, ImageDraw, ImageFont
    size, (w, h), margin = 16, (10, 20), 8
    columns, rows = screen.columns, len(screen.rows)
    fonts = [ImageFont.truetype(name, size) for name in FONTS[0]]
    others = [ImageFont.truetype(name, 17) for name in WIDE if os.path.exists(name)]

    def font(text, on):
        wanted = fonts[1 if 1 in on else 2 if 3 in on else 0]
        return wanted if text.isascii() else next((f for f in [wanted, *others] if drawn(f, text)), wanted)

    image = Image.new("RGB", (columns * w + 2 * margin, rows * h + 2 * margin), screen.ground[1])
    draw = ImageDraw.Draw(image)
    for y, row in enumerate(screen.rows):
        x, top = margin, y * h + margin
        for text, cols, fore, back, on in filter(lambda cell: cell[1], row):
            draw.rectangle((x, top, x + cols * w - 1, top + h - 1), fill=back)
            if text.strip():
                box(draw, text, x, top, w, h, fore) or draw.text(
                    (x, top + h - 5), text, fore, font(text, on), anchor="ls")
            if 4 in on:
                draw.line((x, top + h - 3, x + cols * w - 1, top + h - 3), fill=fore)
            if 9 in on:
                draw.line((x, top + h // 2, x + cols * w - 1, top + h // 2), fill=fore)
            x += cols * w
    # All colours: with 128 of them the pale bands of light themes disappear.
    image.save(path, optimize=True)


def drawn(font, text):
    """True if the font has a picture of this text, and not only the one for what it lacks."""
    return bytes(font.getmask(text)) != bytes(font.getmask("\U000fffff"))


def box(draw, text, x, y, w, h, fore):
    """Lines, corners and blocks that fill their cell, as terminals draw them."""
    arms = {"─": "lr", "━": "LR", "│": "tb", "┃": "TB", "┌": "rb", "╭": "rb", "┐": "lb", "╮": "lb", "└": "tr", "╰": "tr", "┘": "tl", "╯": "tl",
            "├": "tbr", "┤": "tbl", "┬": "lrb", "┴": "lrt", "┼": "lrtb", "╹": "T", "╻": "B", "═": "LR", "╞": "tbr", "╪": "lrtb", "╡": "tbl",
            "╌": "lr", "╎": "tb", "⎿": "tr", "⎯": "lr"}.get(text)
    middle, centre = x + w // 2, y + h // 2
    if arms:
        for arm in arms:
            thick = 3 if arm.isupper() else 1
            end = {"l": (x, centre), "r": (x + w - 1, centre), "t": (middle, y), "b": (middle, y + h - 1)}[arm.lower()]
            draw.line((middle, centre, *end), fill=fore, width=thick)
        return True
    if text in "█▀▄▌▐▎▏▔▁▕▍▊▋▉":
        part = {"█": (0, 0, 1, 1), "▀": (0, 0, 1, .5), "▄": (0, .5, 1, 1), "▌": (0, 0, .5, 1), "▐": (.5, 0, 1, 1), "▎": (0, 0, .25, 1),
                "▏": (0, 0, .125, 1), "▔": (0, 0, 1, .125), "▁": (0, .875, 1, 1), "▕": (.875, 0, 1, 1), "▍": (0, 0, .375, 1),
                "▊": (0, 0, .75, 1), "▋": (0, 0, .625, 1), "▉": (0, 0, .875, 1)}[text]
        draw.rectangle((x + part[0] * w, y + part[1] * h, x + part[2] * w - 1, y + part[3] * h - 1), fill=fore)
        return True
    return False


def write(screen, path):
    if path.endswith(".png"):
        return png(screen, path)
    with open(path, "w") as file:
        file.write(svg(screen))
