"""Which pictures of the docs look otherwise than their pages do now.

Two pictures of one page are never the same: times, numbers of jobs and curves go on. So words with a figure in them,
and what is drawn point by point, are painted over in both before they are compared, and they are compared small, where
a word that moved by a pixel makes no difference.
"""

import io
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw
from playwright.sync_api import Page

LARGEST = 60_000
"""Bytes of one picture."""
LIVE = """() => {
    const drawn = "canvas, .log-box, meter, progress, .start-bar, [type=date]";
    const boxes = [...document.querySelectorAll(drawn)].map(it => [it]);
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, text =>
        /\\d/.test(text.data) ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT);
    while (texts.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        boxes.push([...range.getClientRects()]);
    }
    return boxes.flat().map(it => it instanceof Element ? it.getBoundingClientRect() : it)
        .filter(box => box.width && box.bottom > 0 && box.top < innerHeight)
        .map(box => [box.left, box.top, box.right, box.bottom]);
}"""
"""Where there is what differs each time."""
AROUND = 6
"""Pixels beside such a place: a figure grows by a digit."""
CELL = 8
"""Pixels of a page that are one pixel of what is compared."""
OTHER = 22
"""Of 255: a pixel that differs by more is another."""
FEW = 8
"""So many pixels may be others: fewer than a short word has."""

Box = tuple[float, float, float, float]


def keep(page: Page, path: Path) -> bool:
    """The page as a picture in that file. Returns True, since it is written whatever it was."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed(page.screenshot()))
    return True


def looks_otherwise(page: Page, path: Path) -> bool:
    """Whether the page looks otherwise than the picture in that file, or there is none. Writes nothing."""
    taken, live = page.screenshot(), [tuple(box) for box in page.evaluate(LIVE)]
    return not path.exists() or difference(path.read_bytes(), taken, live) > FEW


def packed(screenshot: bytes) -> bytes:
    """The same picture as WebP of at most LARGEST bytes."""
    with Image.open(io.BytesIO(screenshot)) as picture:
        for quality in (60, 44, 30):
            made = io.BytesIO()
            picture.convert("RGB").save(made, "webp", quality=quality, method=6)
            if made.tell() <= LARGEST:
                break
    return made.getvalue()


def difference(old: bytes, new: bytes, live: list[Box]) -> int:
    """How many small pixels differ, without what is ``live`` in the new one."""
    with Image.open(io.BytesIO(old)) as before, Image.open(io.BytesIO(new)) as after:
        if before.size != after.size:
            return before.width * before.height
        small = [_small(one.convert("RGB"), live) for one in (before, after)]
    apart = ImageChops.difference(*small)
    strongest = ImageChops.lighter(ImageChops.lighter(apart.getchannel(0), apart.getchannel(1)), apart.getchannel(2))
    return sum(strongest.histogram()[OTHER + 1 :])


def _small(picture: Image.Image, live: list[Box]) -> Image.Image:
    draw = ImageDraw.Draw(picture)
    for left, top, right, bottom in live:
        draw.rectangle((left - AROUND, top - 1, right + AROUND, bottom + 1), fill="gray")
    return picture.reduce(CELL)
