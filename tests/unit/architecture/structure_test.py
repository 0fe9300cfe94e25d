# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Classes stay small and components call each other in one direction, and the checks notice when they do not."""

import os
import pathlib
import tempfile
import unittest

import include_rules
import structure_rules

ROOT = pathlib.Path(os.environ["GAUDI_SOURCE_DIR"])


class the_tree(unittest.TestCase):
    def test_has_no_class_that_is_too_large(self):
        self.assertEqual(structure_rules.too_large(ROOT / "prov"), [])

    def test_is_as_large_as_the_list_of_exceptions_says(self):
        self.assertEqual(structure_rules.shrunk(ROOT / "prov"), set(), "take these out of LARGER, or lower what it says")

    def test_has_components_that_call_in_one_direction(self):
        for room in structure_rules.LAYERED_ROOMS:
            edges = structure_rules.component_edges(ROOT / "prov", room)
            self.assertGreater(len(edges), 20)
            self.assertIsNone(include_rules.find_circle(edges), f"components of {room} include each other in a circle")

    def test_has_inner_rooms_that_include_downwards(self):
        for room in structure_rules.LAYERED_ROOMS:
            inner = structure_rules.inner_ranks(room)
            self.assertEqual([name for name in inner if not list((ROOT / "prov" / room / name).glob("*.hpp"))], [], "empty")
            self.assertEqual(structure_rules.upward_includes(ROOT / "prov", room), [])

    def test_hands_down_what_belongs_to_the_process(self):
        for name in {structure_rules.FINDS_THE_PROCESS} | structure_rules.WITHOUT_AN_OBJECT:
            text = (ROOT / "prov" / name).read_text(encoding="utf-8")
            self.assertRegex(text, structure_rules.CONTEXT_OF_PROCESS, f"{name} needs no exception")
        self.assertEqual(structure_rules.global_reaches(ROOT / "prov"), [])

    def test_moves_payload_in_one_room(self):
        self.assertEqual(structure_rules.payload_copies(ROOT / "prov"), [])

    def test_counts_the_endpoint_s_parts(self):
        found = dict((name, rest) for name, *rest in
                     structure_rules.classes((ROOT / "prov/proto/endpoint.hpp").read_text(encoding="utf-8")))
        methods, members = found["endpoint"]
        self.assertIn(methods, range(25, 41))
        self.assertIn(members, range(15, 21))


class the_count(unittest.TestCase):
    def counted(self, body):
        found = list(structure_rules.classes("class x final : private y<z> {\n" + body + "\n};\n"))
        return found[0][1:]

    def test_takes_functions_for_methods(self):
        self.assertEqual(self.counted("""
          explicit x(int a) : a_(a) {}  // a comment; with a semicolon
          ~x();
          [[nodiscard]] bool is() const noexcept { return a_ == 1; }
          template <class Visit> void each(Visit&& visit) { visit(*this); }
          void go(int n = 0) noexcept override;
          void call() noexcept try { go(); } catch (...) {}"""), (6, 0))

    def test_does_not_count_what_is_not_there_or_not_written(self):
        self.assertEqual(self.counted("""
          x(const x&) = delete;
          x& operator=(const x&) = delete;
          x() = default;
          using list = std::vector<int>;
          friend struct audit;
          enum class way { here, there };
          static constexpr int most = f(3);
          struct inner { int a; int b; void c(); };"""), (0, 0))

    def test_takes_variables_for_members(self):
        self.assertEqual(self.counted("""
          int a_ = 0;
          std::vector<int> b_{1, 2};
          const int c_;
          std::function<void(int)> d_;
          std::uint64_t e_ = device::count();
          std::vector<int> f_ GAUDI_GUARDED_BY(mutex_);
          struct { int a; int b; } g_;"""), (0, 7))

    def test_sees_nested_classes_by_themselves(self):
        found = {name: tuple(rest) for name, *rest in structure_rules.classes(
            "struct outer { struct inner { int a; void f(); }; int b; };")}
        self.assertEqual(found, {"outer": (0, 1), "inner": (1, 1)})


class the_checks(unittest.TestCase):
    def planted(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = pathlib.Path(folder.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return pathlib.Path(folder.name)

    def test_find_a_class_with_too_many_methods_or_members(self):
        methods = "".join(f"void f{n}();\n" for n in range(structure_rules.MAX_METHODS + 1))
        members = "".join(f"int m{n};\n" for n in range(structure_rules.MAX_MEMBERS + 1))
        prov = self.planted({"proto/a.hpp": "class a {\n" + methods + "};\n", "fi/b.hpp": "struct b {\n" + members + "};\n",
                             "fi/c.hpp": "struct c {\n" + "".join(members.splitlines(True)[1:]) + "};\n"})
        found = structure_rules.too_large(prov)
        self.assertEqual(len(found), 2)
        self.assertIn("b has 21 data members", found[0])
        self.assertIn("a has 41 methods", found[1])

    def test_find_components_that_include_each_other(self):
        files = {"proto/a.hpp": '#include "proto/b.hpp"\n', "proto/b.hpp": "\n", "proto/b.cpp": '#include "proto/b.hpp"\n'}
        one_way = structure_rules.component_edges(self.planted(files), "proto")
        self.assertIsNone(include_rules.find_circle(one_way))
        files["proto/b.cpp"] += '#include "proto/a.hpp"\n'
        self.assertTrue(include_rules.find_circle(structure_rules.component_edges(self.planted(files), "proto")))

    def test_find_an_inner_room_that_includes_upwards(self):
        files = {"proto/a.hpp": '#include "proto/rma/b.hpp"\n', "proto/rma/b.hpp": '#include "proto/wire/c.hpp"\n',
                 "proto/wire/c.hpp": '#include "base/log.hpp"\n'}
        self.assertEqual(structure_rules.upward_includes(self.planted(files), "proto"), [])
        for upwards in ("proto/rma/b.hpp", "proto/a.hpp"):
            found = structure_rules.upward_includes(
                self.planted(files | {"proto/wire/c.hpp": f'#include "{upwards}"\n'}), "proto")
            self.assertEqual(len(found), 1)
            self.assertIn(f"proto/wire must not include {upwards}", found[0])

    def test_find_who_copies_payload(self):
        for code in ("std::memcpy(bytes, payload, length);", "std::memcpy(to,\n  s.host() + 3, n);", "memmove(memory.at(0), b, n);",
                     "::process_vm_readv(pid, a, 1, b, 1, 0);", "on.cma()->read(to, from, n);", "loop_->copy(a, b, n);"):
            self.assertEqual(len(structure_rules.payload_copies(self.planted({"proto/a.cpp": code}))), 1, code)
            self.assertEqual(structure_rules.payload_copies(self.planted({"copy/a.cpp": code})), [])
        for code in ("std::memcpy(b->bytes, &fields, sizeof fields);", "// std::memcpy(a, payload, n)", "config.loop->connect();"):
            self.assertEqual(structure_rules.payload_copies(self.planted({"proto/a.cpp": code})), [], code)

    def test_find_siblings_that_include_each_other(self):
        allowed = {"fi/rdm/a.hpp": '#include "fi/rdm/b.hpp"\n', "fi/rdm/b.hpp": '#include "fi/info/c.hpp"\n',
                   "fi/msg/d.hpp": '#include "fi/info/c.hpp"\n', "fi/e.hpp": '#include "fi/msg/d.hpp"\n'}
        self.assertEqual(structure_rules.upward_includes(self.planted(allowed), "fi"), [])
        for here, there in (("rdm", "msg"), ("msg", "rdm")):
            found = structure_rules.upward_includes(self.planted({f"fi/{here}/a.hpp": f'#include "fi/{there}/b.hpp"\n'}), "fi")
            self.assertEqual(len(found), 1)
            self.assertIn(f"fi/{here} must not include fi/{there}/b.hpp", found[0])

    def test_find_an_inner_room_that_has_no_place(self):
        found = structure_rules.upward_includes(self.planted({"proto/more/d.hpp": "\n", "proto/rma/deep/e.hpp": "\n"}), "proto")
        self.assertEqual(len(found), 2)
        self.assertIn("proto/more is not a known room", found[0])

    def test_find_who_reaches_for_what_belongs_to_the_process(self):
        for code in ("device::device_registry::instance().find(a);", "auto& p = base::params::get();", "if (params::parsed()) f();",
                     "return page::instance ().fd();", "base::per_process<table>::get();",
                     "order_in_use(provider_context::of_process());", "provider_context::checked();"):
            for name in ("fi/rdm/mr.cpp", "proto/transfer/a.hpp"):
                found = structure_rules.global_reaches(self.planted({name: f"// first line\n{code}\n"}))
                self.assertEqual(len(found), 1, code)
                self.assertIn(f"{name}:2: takes the process's", found[0])

    def test_leave_alone_who_is_handed_it_and_who_hands_it_out(self):
        handed = "c.instance(); context.params.rails; p.get(); // device_registry::instance()\n"
        finds = "base::params::get(), device::device_registry::instance()\n"
        self.assertEqual(structure_rules.global_reaches(self.planted({
            "fi/rdm/mr.cpp": handed, "proto/a.hpp": handed, "reg/a.cpp": finds, structure_rules.FINDS_THE_PROCESS: finds,
            "fi/getinfo.cpp": "provider_context::checked();\n"})), [])
        self.assertTrue(structure_rules.global_reaches(self.planted({"fi/getinfo.cpp": finds})))

    def test_take_a_file_without_a_header_for_a_part_of_what_it_includes_first(self):
        files = {"proto/a.hpp": "\n", "proto/b.hpp": '#include "proto/a.hpp"\n',
                 "proto/a_more.cpp": '#include <vector>\n#include "proto/a.hpp"\n#include "proto/b.hpp"\n'}
        self.assertTrue(include_rules.find_circle(structure_rules.component_edges(self.planted(files), "proto")))


if __name__ == "__main__":
    unittest.main()
