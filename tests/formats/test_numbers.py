"""The fast way from text to numbers gives what Python's `float` gives, and refuses what it refuses."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qecnet.formats import _numbers
from qecnet.formats._parts import Malformed

decimals = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 10**17),
    st.sampled_from(["", "."]),
    st.from_regex(r"\A[0-9]{0,25}\Z"),
)
floats = st.floats(width=64).map(repr)


@given(st.lists(st.one_of(decimals, floats), max_size=30), st.sampled_from([" ", "\n", "\t", " \r\n "]))
@settings(max_examples=300, deadline=None)
def test_every_number_is_read_to_the_last_bit(words, space):
    expected = np.array([float(word) for word in words])
    np.testing.assert_array_equal(_numbers.parse_numbers(space.join(words).encode()), expected)


@given(st.text("0123456789.-+e ", max_size=30))
@example("1-5 .")
@example(".-5")
@example("-")
@example("5 -")
@example("-.")
@example("1.2.3 4")
@example("1. .5 -.5")
@settings(max_examples=500, deadline=None)
def test_words_that_python_refuses_are_refused(text):
    try:
        expected = [float(word) for word in text.split()]
    except ValueError:
        with pytest.raises(Malformed):
            _numbers.parse_numbers(text.encode())
    else:
        np.testing.assert_array_equal(_numbers.parse_numbers(text.encode()), expected)


@pytest.mark.parametrize("line", ["1.5 -2 3e5", "0.25 17 -3.125"])
def test_text_of_many_blocks_is_the_sum_of_its_lines(line):
    count = 3 * _numbers._BLOCK // len(line)
    values, counts = _numbers.parse_rows(f"{line}\n\n".encode() * count)
    assert (counts == 3).all()
    np.testing.assert_array_equal(values.reshape(count, 3), [[float(word) for word in line.split()]] * count)


def test_a_ragged_table_is_refused_with_its_line():
    with pytest.raises(Malformed, match="2 numbers on line 3"):
        _numbers.parse_table(b"1 2 3\n4 5 6\n7 8\n9 10 11 12\n")
