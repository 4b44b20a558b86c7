"""Charts as SVG. Strips stretch to any width and hold no text; graphs have a fixed shape and text in them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from markupsafe import Markup

from planner.show.charts.kit.axes import ChartAxis
from planner.show.charts.kit.blocks import Box, Dot, Graph, Label, Line, Look, Mark, Rule

WIDTH, HEIGHT = 360, 190
"""Of a graph, in its own units: as wide as a phone shows it."""
RIGHT, TOP, BOTTOM = 12, 22, 30
LETTER = 7
"""Width of a letter of an axis, in the graph's units: the widest font that a page is seen in."""
LEFT, BARE_LEFT = 46, 16
"""With and without labels at the vertical axis; long labels take more."""
ENDS = {Look.AREA: "Z", Look.RIBBON: "Z", Look.DOTS: "h0"}
"""Of a path."""
STRIP, TALL = 1000, 100
"""Of a strip, which stretches to whatever it is given."""


def figure(value: float) -> str:
    """A coordinate: two digits are a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def element(tag: str, attributes: Mapping[str, float | str], inside: str = "") -> Markup:
    """`<rect x="1" ...>`: all that is not markup yet is escaped."""
    texts = {key: value if isinstance(value, str) else figure(value) for key, value in attributes.items()}
    written = Markup("").join(Markup(' {}="{}"').format(key, text) for key, text in texts.items())
    return Markup("<{tag}{written}>{inside}</{tag}>").format(tag=tag, written=written, inside=inside)


def titled(text: str) -> str:
    """Shows where one points."""
    return element("title", {}, text) if text else ""


def words(x: float, y: float, text: str, style: str = "", anchor: str = "middle") -> Markup:
    """Words in a graph."""
    return element("text", {"x": x, "y": y, "text-anchor": anchor, "class": style}, text)


def straight(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    """A straight line."""
    return element("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": style})


@dataclass(frozen=True, slots=True)
class Plane:
    """Where the values of two axes lie in a drawing."""

    x: ChartAxis
    y: ChartAxis
    left: float
    right: float
    floor: float
    ceiling: float

    def across(self, value: float) -> float:
        """Distance from the left."""
        return self.left + self.x.share(value) * (self.right - self.left)

    def up(self, value: float) -> float:
        """Distance from the top."""
        return self.floor - self.y.share(value) * (self.floor - self.ceiling)

    def drawn(self, mark: Mark) -> Markup:
        """A mark."""
        match mark:
            case Line():
                return self.line(mark)
            case Rule():
                return self.rule(mark)
            case Box():
                return self.box(mark)
            case Dot():
                return self.dot(mark)
            case Label():
                return words(self.across(mark.x), self.up(mark.y), mark.text, "bold" if mark.strong else "plain")

    def line(self, line: Line) -> Markup:
        """Through points, or around an area; nothing where there is no point."""
        places = [f"{figure(self.across(x))} {figure(self.up(y))}" for x, y in line.points]
        steps = "h0M" if line.look is Look.DOTS else "L"
        path = {"d": f"M{steps.join(places)}{ENDS.get(line.look, '')}", "class": f"{line.colour} {line.look}"}
        return element("path", path) if places else Markup("")

    def rule(self, rule: Rule) -> Markup:
        """From side to side, with its name."""
        style = f"{rule.colour} dashed" if rule.dashed else rule.colour
        if rule.level:
            y = self.up(rule.at)
            return straight(self.left, y, self.right, y, style) + words(self.left + 2, y - 3, rule.name, "", "start")
        x = self.across(rule.at)
        room = LETTER * len(rule.name) / 2
        name = words(min(x, WIDTH - room), self.ceiling - 6, rule.name, "strong")
        return straight(x, self.ceiling - 2, x, self.floor, style) + name

    def box(self, box: Box) -> Markup:
        """At least as wide and high as one can see."""
        left, right = self.across(box.left), self.across(box.right)
        top, bottom = self.up(box.high), self.up(box.low)
        height = max(1.0, bottom - top)
        place = {"x": left, "y": bottom - height, "width": max(0.5, right - left - 0.4), "height": height}
        style = f"{box.colour} pale" if box.pale else box.colour
        return element("rect", {**place, "class": style}, titled(box.title))

    def dot(self, dot: Dot) -> Markup:
        """With its name above."""
        x, y = self.across(dot.x), self.up(dot.y)
        radius = 5 if dot.label else 3.5
        circle = element("circle", {"cx": x, "cy": y, "r": radius, "class": dot.colour}, titled(dot.title))
        return circle + words(x, y - 9, dot.label, "strong") if dot.label else circle

    def grid(self) -> Iterator[Markup]:
        """Both axes with their labels; of a drawing, which has none, nothing."""
        if self.x.ticks:
            yield straight(self.left, self.floor, self.right, self.floor, "axis")
        free = inf
        for value, text in reversed(self.x.ticks):  # an axis says where it ends
            x, half = self.across(value), LETTER * len(text) / 2
            middle = min(x, WIDTH - half)
            yield straight(x, self.floor, x, self.floor + 4, "axis")
            if middle + half <= free:
                yield words(middle, self.floor + 17, text)
                free = middle - half - LETTER / 2
        for value, text in self.y.ticks:
            y = self.up(value)
            yield straight(self.left, y, self.right, y, "grid")
            yield words(self.left - 5, y + 4, text, "", "end")
        if self.x.title:
            yield words((self.left + self.right) / 2, self.floor + 32, self.x.title, "muted")
        if self.y.title:
            yield words(4, 9, self.y.title, "muted", "start")


def graph(one: Graph) -> Markup:
    """A graph of fixed shape."""
    height = HEIGHT + (8 if one.x.title else 0)
    longest = max((len(text) for _, text in one.y.ticks), default=0)
    left = max(LEFT, LETTER * longest + 8) if longest else BARE_LEFT
    plane = Plane(one.x, one.y, left, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP)
    parts = [*plane.grid(), *map(plane.drawn, one.seen)]
    about = one.about or f"{one.title}: {one.y.title} by {one.x.title}"
    frame = {"class": "chart", "viewBox": f"0 0 {WIDTH} {height}", "role": "img", "aria-label": about}
    return element("svg", frame, Markup("").join(parts))


def strip(marks: Sequence[Mark], x: ChartAxis, about: str, high: float = 1.0) -> Markup:
    """Marks that stretch with the page."""
    plane = Plane(x, ChartAxis(0, high), 0, STRIP, TALL, 0)
    frame = {"class": "strip", "viewBox": f"0 0 {STRIP} {TALL}", "preserveAspectRatio": "none"}
    return element("svg", frame | {"role": "img", "aria-label": about}, Markup("").join(map(plane.drawn, marks)))
