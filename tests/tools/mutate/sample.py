# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which mutants are run when not all are: the same for a seed, and little different after a change elsewhere."""

import collections
import hashlib


def rank(site, seed):
    return hashlib.sha256(f"{seed} {site.id}".encode()).digest()


def spread(sites, seed):
    """All of one room, so that any first part of them has its share of each file."""
    by_file = collections.defaultdict(list)
    for site in sites:
        by_file[site.file].append(site)
    placed = []
    for of_file in by_file.values():
        of_file.sort(key=lambda s: rank(s, seed))
        placed += [((place + 0.5) / len(of_file), rank(site, seed), site) for place, site in enumerate(of_file)]
    return [site for *_, site in sorted(placed, key=lambda p: p[:2])]


def sample(sites, count, seed):
    """As many from each room, as far as it has them."""
    by_room = collections.defaultdict(list)
    for site in sites:
        by_room[site.room].append(site)
    chosen = []
    rooms = sorted(by_room.values(), key=len)
    for done, of_room in enumerate(rooms):
        share = (count - len(chosen)) // (len(rooms) - done)
        chosen += spread(of_room, seed)[:share]
    return sorted(chosen, key=lambda s: s.number)
