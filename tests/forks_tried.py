"""What the page on safety says was tried of forks, threads and processes; each row is a test."""

from __future__ import annotations

from dataclasses import dataclass

from scale import SCALES


@dataclass(frozen=True)
class Tried:
    """A row of the table.

    Attributes:
        test: In tests/test_forks.py.
        what: As the page says it.
        trials: How many in CI.
        found: What became of it.
    """

    test: str
    what: str
    trials: int
    found: str = "0 writes lost"


JOBS = SCALES["full"].fork_jobs

TRIED = (
    Tried(
        "test_nothing_is_lost_whatever_forks_closes_and_dies",
        "at random: up to 3 generations of forks, threads that write and search during the fork, "
        "`close` before or after the other, inherited handles closed or kept, `kill -9`, "
        "checkpoints, backups, forgetting and scrubbing, other processes that come and go, and "
        "code that reads the files or opens them with `sqlite3`",
        SCALES["full"].forks,
        "0 writes lost, 0 files damaged, 0 processes hung",
    ),
    Tried(
        "test_the_parent_closes_first",
        "the child opens its own memory, the parent closes, the child writes on and is killed",
        1,
    ),
    Tried(
        "test_other_code_opens_the_files",
        "`open().close()` of the database, a copy of all its files, and Python's `sqlite3`, in a "
        "process that writes, while another one closes",
        3,
    ),
    Tried(
        "test_a_fork_waits_for_who_is_inside",
        "a fork while another thread is in the middle of a transaction",
        1,
        "the fork waits; the child opens its own",
    ),
    Tried(
        "test_a_fork_that_cannot_wait_any_longer",
        "the same, for longer than 30 seconds; or a fork by the thread itself",
        2,
        "opening in the child is `ForkedStore`; 0 writes lost",
    ),
    Tried(
        "test_a_fork_that_python_does_not_see",
        "a fork by a library in C, such as an embedding server",
        1,
        "as any other; 0 writes lost",
    ),
    Tried(
        "test_a_fork_in_what_the_user_gave",
        "a fork inside an embedder, a clock, a rule of admission or a compaction",
        4,
        "the child opens its own",
    ),
    Tried(
        "test_process_pools",
        "`ProcessPoolExecutor` with `fork`, `forkserver` and `spawn`, under a thread that writes",
        3 * JOBS,
    ),
    Tried(
        "test_servers",
        "gunicorn, with and without `--preload`, with workers that are replaced and killed",
        2 * JOBS,
    ),
    Tried("test_servers", "Celery's prefork pool, whose processes are replaced as they work", JOBS),
)
