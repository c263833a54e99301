# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainlet.errors import TrainletError
from trainlet.scheme import (
    RATIOS,
    Scheme,
    everything,
    from_toml,
    head_only,
    last_biases,
    load_scheme,
    paper,
    paper_schemes,
    scheme_names,
    smaller_schemes,
    to_toml,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
weights = st.dictionaries(texts, st.sampled_from(RATIOS), max_size=4).map(
    lambda table: tuple(table.items())
)
schemes = st.one_of(
    st.builds(
        Scheme,
        name=texts,
        biases=st.one_of(st.just("all"), st.integers(0, 99)),
        weights=weights,
        channels=st.sampled_from(["magnitude", "first", "random"]),
        seed=st.integers(0, 2**64 - 1),
    ),
    st.builds(
        Scheme, name=texts, biases=st.just("all"), all_weights=st.just(True), head=st.booleans()
    ),
)


@given(schemes)
def test_toml_round_trip(scheme: Scheme) -> None:
    assert from_toml(to_toml(scheme)) == scheme


def test_constructors() -> None:
    assert head_only() == Scheme("head-only", biases=0, head=True)
    assert last_biases(8).biases == 8
    assert everything().all_weights
    assert everything().biases == "all"


def test_there_are_fifteen_published_schemes_five_a_network() -> None:
    assert len(paper_schemes()) == 15
    for network in ("mcunet", "mbv2-w0.35", "proxyless"):
        assert len(paper_schemes(network)) == 5


def test_a_published_scheme_has_its_values() -> None:
    expected = Scheme("mcunet-49kb", biases=20, weights=(("24", 0.25), ("27", 0.5), ("30", 0.5)))
    assert paper("mcunet-49kb") == expected
    assert paper("mcunet-5fps-49kb") == expected
    assert paper("mbv2-w0.35-123kb").biases == 31
    assert ("49", 0.125) in paper("mbv2-49kb").weights


def test_an_unknown_published_scheme_suggests_near_ones() -> None:
    with pytest.raises(TrainletError, match=r"did you mean .*mcunet-49kb"):
        paper("mcunet-50kb")


def test_smaller_schemes_are_the_same_networks_largest_first() -> None:
    smaller = smaller_schemes("mcunet-124kb")
    assert [entry.name for entry in smaller] == ["mcunet-99kb", "mcunet-74kb", "mcunet-49kb"]
    assert [entry.kb for entry in smaller] == [99.84, 74.81, 49.75]
    assert smaller_schemes("mcunet-49kb") == ()
    assert smaller_schemes("everything") == ()


@pytest.mark.parametrize("name", scheme_names())
def test_every_name_loads(name: str) -> None:
    assert load_scheme(name).name == name


def test_load_last_biases_and_files(tmp_path: Path) -> None:
    assert load_scheme("last-biases-8") == last_biases(8)
    path = tmp_path / "mine.toml"
    path.write_text('name = "m"\nbiases = 3\n[weights]\n2 = 0.25\n"blocks.1.depthwise" = "1"\n')
    expected = Scheme("m", biases=3, weights=(("2", 0.25), ("blocks.1.depthwise", 1.0)))
    assert load_scheme(path) == expected


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("mcunet-4kb", "did you mean mcunet-74kb or mcunet-49kb"),
        ("evrything", "did you mean everything"),
        ("zz", "Trainlet knows head-only, everything, last-biases-N, mcunet-49kb"),
        ("last-biases-x", "write last-biases-8"),
        ("none.toml", "does not exist"),
    ],
)
def test_load_errors(name: str, part: str) -> None:
    with pytest.raises(TrainletError) as caught:
        load_scheme(name)
    assert part in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "b.toml"
    binary.write_bytes(b"\xff\x00")
    with pytest.raises(TrainletError, match="not UTF-8"):
        load_scheme(binary)
    folder = tmp_path / "f.toml"
    folder.mkdir()
    with pytest.raises(TrainletError, match="cannot be read"):
        load_scheme(folder)


def test_every_problem_of_a_toml_scheme_is_listed() -> None:
    text = """
biases = true
colour = 1
channels = 3
seed = "x"
head = 1
[weights]
4 = 0.3
5 = "2/3"
blocks.1 = 1
"""
    with pytest.raises(TrainletError) as caught:
        from_toml(text, "scheme file s.toml")
    message = str(caught.value)
    assert message.startswith("scheme file s.toml")
    for part in (
        "colour is not a field",
        "name is missing",
        'biases is True; it must be a whole number or "all"',
        "channels is 3",
        "seed is 'x'",
        "head is 1",
        "layer '4' is given ratio 0.3, not one of 1/8, 1/4, 1/2, 1",
        "layer '5' is given ratio '2/3'",
        "put the layer's path in quotes",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("name = ", "not valid TOML"),
        ('name = "a"\nweights = 3', 'weights must be "all"'),
        ('name = "a"\nweights = "all"', 'biases must be "all"'),
        ('name = "a"\nhead = false', "nothing learns"),
        ('name = "a"\nbiases = -1', "biases is -1"),
        ('name = "a"\nchannels = "best"', "'best' is not one of"),
        ('name = "a"\nseed = -1', "seed -1 must lie in"),
    ],
)
def test_broken_toml_schemes(text: str, part: str) -> None:
    with pytest.raises(TrainletError) as caught:
        from_toml(text)
    assert part in str(caught.value)


def test_a_scheme_refuses_wrong_weights() -> None:
    with pytest.raises(TrainletError) as caught:
        Scheme(
            "s", biases=2, weights=(("1", 0.3), ("2", 0), ("3", 1), ("3", 0.5)), all_weights=True
        )
    message = str(caught.value)
    for part in ("ratio 0.3", "leave the layer out", "'3' is named 2 times", "no single ones"):
        assert part in message
