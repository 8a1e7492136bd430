from __future__ import annotations

import re

from mm2.core.failover import codes

CODES = [value for name, value in vars(codes).items() if name.isupper()]


def test_codes_are_words_to_type_and_each_is_one_of_its_own():
    assert len(set(CODES)) == len(CODES)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)+", each) for each in CODES)
