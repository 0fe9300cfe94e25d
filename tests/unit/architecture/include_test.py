# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Includes in prov/ point downwards, and the check that says so notices when one does not."""

import os
import pathlib
import tempfile
import unittest

import include_rules

ROOT = pathlib.Path(os.environ["GAUDI_SOURCE_DIR"])


class the_tree(unittest.TestCase):
    def test_has_includes_to_check(self):
        self.assertGreater(len(list(include_rules.includes(ROOT / "prov"))), 0)

    def test_keeps_the_direction_of_includes(self):
        self.assertEqual(include_rules.violations(ROOT / "prov"), [])


class the_check(unittest.TestCase):
    def planted(self, *files):
        """The violations in a made-up prov/ with the given (path, include line) files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, line in files:
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"// first line\n{line}\n", encoding="utf-8")
            return include_rules.violations(pathlib.Path(folder))

    def test_finds_an_edge_that_points_upwards(self):
        found = self.planted(("hl/thunk.cpp", '#include "device/device.hpp"'))
        self.assertEqual(len(found), 1)
        self.assertIn("thunk.cpp:2: room hl must not include room device", found[0])

    def test_finds_any_room_that_base_includes(self):
        for room in set(include_rules.RANKS) - {"base"} | {"core"}:
            self.assertTrue(self.planted(("base/log.hpp", f'#include "{room}/x.hpp"')), room)

    def test_lets_only_fi_proto_and_reg_see_core(self):
        seeing = {room for room in include_rules.RANKS
                  if not self.planted((f"{room}/x.cpp", '#include "core/fid.hpp"'))}
        self.assertEqual(seeing, {"fi", "proto", "reg"})

    def test_does_not_let_core_see_the_protocol(self):
        self.assertTrue(self.planted(("core/x.cpp", '#include "proto/wire/wire.hpp"')))

    def test_finds_libfabric_in_a_room_that_does_not_use_it(self):
        self.assertTrue(self.planted(("device/x.cpp", "#include <rdma/fi_endpoint.h>")))
        self.assertFalse(self.planted(("device/x.cpp", "#include <rdma/fi_errno.h>")))

    def test_finds_an_include_that_names_no_room(self):
        self.assertTrue(self.planted(("fi/rdm/av.cpp", '#include "av.hpp"')))
        self.assertTrue(self.planted(("fi/rdm/av.cpp", '#include "../fi/rdm/av.hpp"')))

    def test_finds_siblings_that_include_each_other(self):
        one_way = ("copy/x.hpp", '#include "reg/y.hpp"')
        self.assertFalse(self.planted(one_way))
        self.assertTrue(self.planted(one_way, ("reg/y.hpp", '#include "copy/x.hpp"')))

    def test_accepts_the_documented_order(self):
        order = ["entry", "fi", "proto", "reg", "device", "hl", "base"]
        for upper, lower in zip(order, order[1:]):
            self.assertFalse(self.planted((f"{upper}/x.cpp", f'#  include "{lower}/y.hpp"')))


if __name__ == "__main__":
    unittest.main()
