"""Which files of unit tests ``make test-quick`` leaves out: those that compile much, wait for threads, or simulate.

A file belongs here when it takes more than a second and a half, also from an empty cache of kernels: who changes the
compiler begins with one.
"""

from __future__ import annotations

from pathlib import Path

LONG = frozenset(
    [
        "barrier_of_series",
        "bench_caneill_runs",
        "bench_chains",
        "column_join",
        "compiler_call_lists",
        "compiler_containers",
        "compiler_fuzz",
        "compiler_ints",
        "compiler_keyed",
        "compiler_limits",
        "compiler_source",
        "compiler_stateless",
        "compiler_text",
        "coroutine_rules",
        "datagen",
        "driver_loops",
        "feedback",
        "interpreted",
        "jit",
        "key_function",
        "key_order",
        "locality_key_graph",
        "locality_reconfiguration",
        "locality_rescaling",
        "locality_routing",
        "locality_sketch",
        "locality_space_saving",
        "native_blocks",
        "native_chain",
        "native_keyed",
        "native_text_keys",
        "new_keys_in_slots",
        "port_room",
        "readers_properties",
        "readers_steady",
        "run_arguments",
        "run_blocking",
        "run_failures",
        "run_interrupts",
        "run_preemption",
        "run_slots",
        "scheduling_c_stream",
        "scheduling_conformance",
        "scheduling_haren",
        "several_flows",
        "simulate",
        "simulate_elastic",
        "simulate_hardware",
        "simulate_loads",
        "simulate_rounds",
        "simulate_topologies",
        "state_store",
        "whole_order_in_machine_code",
    ]
)


def is_long(path: Path) -> bool:
    """Whether the file is left out."""
    return path.name.removeprefix("test_").removesuffix(".py") in LONG
