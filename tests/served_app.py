"""A WSGI application and a Celery application that remember what they are told."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

from alveus import Memory

PLACE = os.environ["ALVEUS_TEST_STORE"]


@functools.cache
def memory() -> Memory:
    """Return the memory of this process."""
    return Memory.open(PLACE, embedder="words", durability="normal")


os.register_at_fork(after_in_child=memory.cache_clear)

memory().key("jobs").add("loaded", on_existing="keep", id=f"loaded-{os.getpid()}")


def wsgi(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Add an item with the id that is asked for; answer by it, and by the process."""
    wanted = str(environ["PATH_INFO"]).strip("/")
    done = memory().key("jobs").add("served", id=wanted)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{done} {os.getpid()}".encode()]


def celery() -> Any:
    """Return the application of Celery, whose broker is a folder."""
    from celery import Celery

    folder = os.environ["ALVEUS_TEST_BROKER"]
    app = Celery("served_app", broker="filesystem://", backend=f"file://{folder}/results")
    app.conf.update(
        broker_transport_options={
            "data_folder_in": f"{folder}/queue",
            "data_folder_out": f"{folder}/queue",
            "control_folder": f"{folder}/control",
            "polling_interval": 0.02,
        },
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="remember")
    def remember(number: int) -> list[object]:
        """Add an item, once; answer by it, and by the process."""
        item = f"task-{number}"
        memory().key("jobs").add("done", id=item, idempotency_key=item)
        return [item, os.getpid()]

    return app


if "ALVEUS_TEST_BROKER" in os.environ:
    app = celery()
