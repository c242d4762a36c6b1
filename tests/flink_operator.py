"""The operator of Flink in whose process the laws of runners are held; see `flink_laws`."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction
from pyflink.datastream.state import MapStateDescriptor

import flink_laws


class KeepLaws(KeyedProcessFunction):
    """Hands inputs to the runners of a law, and keeps copies of exact memory in keyed state."""

    def __init__(self, folder: str, port: int) -> None:
        self._folder, self._port = folder, port

    def open(self, runtime_context):
        text = Types.STRING()
        self._state = runtime_context.get_map_state(MapStateDescriptor("exact", text, text))
        self._thread = ThreadPoolExecutor(1)  # see `Subtask._call`
        threading.Thread(
            target=flink_laws.hold_laws, args=(Path(self._folder), self._port), daemon=True
        ).start()

    def process_element(self, value, ctx):
        law, number = value.split("\t")
        runner, accept, answer = flink_laws.DOOR.take(int(number))
        if runner.lives:
            runner.load(accept.args[0], self._state)
        done = self._thread.submit(accept)
        wait([done])  # keyed state is of this key only until this returns
        answer.set_result(done)
        self._look_later(law, ctx)
        return ()

    def on_timer(self, timestamp, ctx):
        law = ctx.get_current_key()
        self._look_later(law, ctx)
        return ()

    def _look_later(self, law, ctx):
        runners = flink_laws.DOOR.runners(law)
        if runners is None:
            self._state.clear()
            return
        for runner in runners:
            if runner.lives:
                runner.tell(self._state)
        now = time.time_ns() // 1_000_000
        ctx.timer_service().register_processing_time_timer(now + flink_laws.LOOK_MS)
