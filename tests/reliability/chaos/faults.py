"""What goes wrong in a campaign: how each fault begins, how it ends, and how often it is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.reliability.chaos.plant import LOST_AFTER_S, NODES, PORTAL, Plant


@dataclass(frozen=True)
class Fault:
    """Something that breaks at ``begin`` and is as it should be again after ``end``, which brings back what was ended
    and does not wait for it. ``kind`` groups faults in the table; ``on``: what cannot be broken twice at once."""

    kind: str
    on: str
    begin: Callable[[], object]
    end: Callable[[], object]
    lasts_s: float


def _kill(plant: Plant, name: str, kind: str, lasts_s: float) -> Fault:
    return Fault(
        kind,
        name,
        lambda: plant.stack.kill9(name),
        lambda: plant.stack.processes[name].start(),
        lasts_s,
    )


def portal_killed(plant: Plant, chance: random.Random) -> Fault:
    name = chance.choice(PORTAL)
    return _kill(plant, name, f"kill -9 of {'web' if name == 'web' else f'worker: {name}'}", _shortly(chance))


def agent_killed(plant: Plant, chance: random.Random) -> Fault:
    long = chance.random() < 0.08
    name = chance.choice(NODES)
    if long:
        return _kill(plant, name, "agent away for longer than a node may be silent", _too_long(chance))
    return _kill(plant, name, "kill -9 of an agent", _shortly(chance))


def docker_restarted(plant: Plant, chance: random.Random) -> Fault:
    engine = plant.services.docker
    if chance.random() < 0.5:
        return Fault("kill -9 of the Docker daemon", "docker", engine.kill, engine.begin, _shortly(chance))
    return Fault("Docker daemon stopped and started", "docker", engine.stop, engine.begin, _shortly(chance))


def redis_emptied(plant: Plant, chance: random.Random) -> Fault:
    redis = plant.stack.redis
    return Fault("Redis restarted empty", "redis", redis.kill, redis.start_empty, _shortly(chance))


def redis_killed(plant: Plant, chance: random.Random) -> Fault:
    redis = plant.stack.redis
    return Fault("kill -9 of Redis", "redis", redis.kill, redis.start, _shortly(chance))


def postgres_killed(plant: Plant, chance: random.Random) -> Fault:
    postgres = plant.services.postgres
    return Fault("kill -9 of PostgreSQL", "postgres", postgres.kill, postgres.start, _shortly(chance))


def network_cut(plant: Plant, chance: random.Random) -> Fault:
    name = chance.choice(NODES)
    cable, reset = plant.cables[name], chance.random() < 0.5
    long = chance.random() < 0.1
    kind = "network cut for longer than a node may be silent" if long else "a node's network cut"
    lasts_s = _too_long(chance) if long else _shortly(chance)
    return Fault(kind, name, cable.cut, lambda: cable.mend(reset=reset), lasts_s)


def clock_jumps(plant: Plant, chance: random.Random) -> Fault:
    name = chance.choice(("portal", *NODES))
    seconds = chance.choice((-7200, -600, -45, -5, 5, 45, 600, 7200))
    clock = plant.clocks[name]
    kind = f"clock of {'the portal' if name == 'portal' else 'a node'} jumps {'on' if seconds > 0 else 'back'}"
    return Fault(kind, f"clock {name}", lambda: clock.off_by(seconds), lambda: clock.off_by(0), 1 + _shortly(chance))


def disk_filled(plant: Plant, chance: random.Random) -> Fault:
    name = chance.choice(("portal", *NODES))
    disk = plant.disks[name]
    kind = f"disk of {'the portal' if name == 'portal' else 'a node'} full"
    return Fault(kind, f"disk {name}", disk.fill, disk.empty, 1 + _shortly(chance))


MAKERS: dict[Callable[[Plant, random.Random], Fault], int] = {
    portal_killed: 30,
    agent_killed: 16,
    docker_restarted: 8,
    redis_emptied: 8,
    redis_killed: 5,
    postgres_killed: 9,
    network_cut: 10,
    clock_jumps: 8,
    disk_filled: 6,
}
"""How often each is drawn, of a hundred."""


def drawn(plant: Plant, chance: random.Random, only: str = "") -> Fault:
    """The next fault; ``only`` of those whose name in ``MAKERS`` has this in it."""
    makers = {make: weight for make, weight in MAKERS.items() if only in make.__name__}
    (make,) = chance.choices(list(makers), weights=list(makers.values()))
    return make(plant, chance)


def _shortly(chance: random.Random) -> float:
    return chance.uniform(0.0, 3.0)


def _too_long(chance: random.Random) -> float:
    return LOST_AFTER_S + chance.uniform(2.0, 10.0)
