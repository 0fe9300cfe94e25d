# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The provider's names are the field's terms, with one word for one thing: identifiers that had another name once do not
come back. The glossary is in prov/docs/architecture.md."""

import os
import pathlib
import re
import tempfile
import unittest

import source_tree

ROOT = pathlib.Path(os.environ["GAUDI_SOURCE_DIR"])
# (what it was called, what it is)
RENAMED = dict(pair.split("=") for pair in """
    meeting_point=fd_listener invitation=fd_handshake_id conversation=control_socket visitor=pending_client neighbour=peer_process
    maker=creator taker=attacher matter=payload_id end_facts=peer_info proof_address=probe_address why_not_reached=cma_errno
    joint_copy=cooperative_copy joint_plan=copy_descriptor joint_words=copy_state helping=pending_assist
    given_dmabufs=exported_dmabufs gift=export_record give_dmabuf=export_to_peer take_dmabuf=import_from_peer
    takes_nothing=import_disabled arrived_message=handle_message arrived_grant=handle_cts grant_fields=cts_fields
    done_fields=fin_fields has_rest=partially_issued holds_back=blocks_later
    lends_slots=slots_on_loan unwritten_=write_backlog_ waiting_grants_=grant_queue_ pace_of=pipeline_params_of
    chunk_way=pipeline_cost_model drop_queued=free_transfers came_alive=confirm_connected outgoing=send_params
    incoming=recv_params tally=counter stranger=unknown_source excess=truncated_bytes deliver_kept=deliver_unexpected
    keep_unexpected=queue_unexpected direct_piece=rma_op nic_loop=nic_loopback registration_name=cache_key
    import_name=import_key use_word=versioned_refcount crowded_=over_capacity_ keeping=retention region_fid=mr_base
    bare_pin=unowned_pin dmabuf_refusal=registration_failure explain_refusal=diagnose dmabuf_numbers=dmabuf_ids
    window_of=window_for losses=device_loss_epoch bell=loss_eventfd rung_=signalled_ hung_up=subscribers
    loss_watcher=loss_observer free_watcher=free_observer leaving=on_free nic_limit=nic_copy_threshold
    engine_terms=engine_config parentage=fork_guard belongs_to_parent=used_after_fork any_domain=domain_base
    connected_domain=msg_domain connected_endpoint=msg_endpoint tell_wait_object=get_wait_object slot_table=id_table
    """.split())
# Limits are max_ and min_.
LIMIT = re.compile(r"(most|least|longest|shortest)_\w+")
# Members are nouns, never prepositions or question words.
MEMBER = re.compile(r"(on|of|to|with|by|how|who|what)_")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
WORD = re.compile(r"[A-Za-z_]\w*")


def complaints(root):
    for path in source_tree.sources(root):
        if path.suffix not in (".cpp", ".hpp"):
            continue
        for word in sorted(set(WORD.findall(NOT_CODE.sub(" ", source_tree.text(path))))):
            if word in RENAMED:
                yield f"{path}: {word} is called {RENAMED[word]}"
            elif LIMIT.fullmatch(word):
                yield f"{path}: {word}: limits are max_ and min_"
            elif MEMBER.fullmatch(word):
                yield f"{path}: {word}: members are nouns"


class the_provider(unittest.TestCase):
    def test_uses_the_terms_of_the_field(self):
        self.assertEqual(list(complaints(ROOT / "prov")), [])


class the_check(unittest.TestCase):
    def found_in(self, text):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.cpp").write_text(text, encoding="utf-8")
            return list(complaints(folder))

    def test_finds_an_old_name(self):
        self.assertEqual(len(self.found_in("int gift;\n")), 1)

    def test_finds_a_limit_and_a_preposition(self):
        self.assertEqual(len(self.found_in("int most_slots, how_;\n")), 2)

    def test_reads_no_comments_and_no_messages(self):
        self.assertEqual(self.found_in('// a gift\nconst char* a = "bell";\n'), [])


if __name__ == "__main__":
    unittest.main()
