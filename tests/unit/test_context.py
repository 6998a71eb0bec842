"""The context: persistent layers inside, a read-only view with copies for the plugin."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bext_workflow.model.context import ContextView, Layers
from bext_workflow.model.json import Json, JsonObject

objects = st.dictionaries(st.text(max_size=3), st.integers(), max_size=8)


@given(objects, st.lists(objects, max_size=40))
def test_layers_are_the_dict_that_they_stand_for(start: JsonObject, updates: list[JsonObject]) -> None:
    """Shallow, key by key (semantics §3)."""
    layers, plain = Layers(start), dict(start)
    for update in updates:
        layers, plain = layers.merged(update), {**plain, **update}
        assert layers.to_dict() == plain
        assert set(layers) == set(plain)
        assert len(layers) == len(plain)
        assert all(key in layers and layers.get(key) == value for key, value in plain.items())
    assert layers.get("not there", "default") == "default"


@given(objects, objects)
def test_an_older_version_does_not_change(start: JsonObject, update: JsonObject) -> None:
    first = Layers(start)
    first.merged(update)
    assert first.to_dict() == start


def test_a_merge_costs_what_changed() -> None:
    """The base is shared, not copied: a step of a run with a large context costs no more than of a small one."""
    large = Layers({str(n): n for n in range(100_000)})
    assert large.merged({"a": 1}).merged({"b": 2}).base is large.base


def test_many_small_updates_do_not_pile_up() -> None:
    layers = Layers()
    for n in range(1000):
        layers = layers.merged({str(n): n})
    assert len(layers.overlay) <= 64
    assert len(layers) == 1000


class TestView:
    stored: ClassVar[JsonObject] = {"items": [{"price": 1}], "name": "x"}

    def view(self) -> ContextView:
        return ContextView(Layers(self.stored))

    def test_reads_like_a_mapping(self) -> None:
        view = self.view()
        assert (view["name"], view.get("nothing"), "items" in view, len(view)) == ("x", None, True, 2)
        assert dict(view) == self.stored
        with pytest.raises(KeyError):
            view["nothing"]

    def test_what_is_nested_is_the_plugins_own(self) -> None:
        view = self.view()
        view["items"][0]["price"] = 2
        view.to_dict()["items"].append("more")
        assert view["items"] == [{"price": 2}, "more"]
        assert self.stored == {"items": [{"price": 1}], "name": "x"}

    def test_assigning_names_the_mend(self) -> None:
        view = self.view()
        with pytest.raises(TypeError, match=r"return StepOutcome.Continue\(context_updates=\{'a': …\}\)"):
            view["a"] = 1
        with pytest.raises(TypeError, match="set 'a' to None"):
            del view["a"]

    @pytest.mark.parametrize("value", [None, 0, "x", [], {}])
    def test_any_value(self, value: Json) -> None:
        assert ContextView(Layers({"a": value}))["a"] == value
