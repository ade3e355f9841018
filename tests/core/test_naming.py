"""Jobs by id, key and unique name: one meaning everywhere."""

from __future__ import annotations

import pytest

from hostler.core.naming import find_job, find_jobs
from hostler.model.errors import NotFound, SpecError, UsageError
from hostler.model.inputs import Cancel, Retry, SetPriority
from hostler.model.work import JobState
from tests.core.builders import fleet, script


def test_a_job_is_found_by_id_key_and_unique_name() -> None:
    driver = fleet()
    driver.submit(script("train", key="first"), script("eval"))
    assert [find_job(driver.state, name).id for name in ("j1", "first", "train", "j2", "eval")] == [
        "j1", "j1", "j1", "j2", "j2",
    ]  # fmt: skip
    assert [job.id for job in find_jobs(driver.state, ("eval", "j1", "eval"))] == ["j2", "j1", "j2"]


def test_an_id_goes_before_a_key_and_a_key_before_a_name() -> None:
    driver = fleet()
    driver.submit(script("j2", key="one"), script("one", key="two"), script("two"))
    assert find_job(driver.state, "j2").id == "j2"
    assert find_job(driver.state, "one").id == "j1"
    assert find_job(driver.state, "two").id == "j2"


def test_a_name_of_several_jobs_lists_five_of_them_with_their_states() -> None:
    driver = fleet(devices=1)
    driver.submit(*(script("train") for _ in range(7)))
    with pytest.raises(UsageError) as raised:
        find_job(driver.state, "train")
    assert not isinstance(raised.value, NotFound)
    listed = "j7 (pending), j6 (pending), j5 (pending), j4 (pending), j3 (pending) and 2 more"
    assert str(raised.value) == f"7 jobs are named 'train': {listed}. Name one of them by its id"


def test_an_unknown_name_is_repeated_in_part() -> None:
    with pytest.raises(NotFound, match=r"'x{100}'"):
        find_job(fleet().state, "x" * 5000)


def test_a_unique_name_serves_to_cancel_rank_and_retry() -> None:
    driver = fleet(devices=1)
    driver.submit(script("first"), script("second"))
    driver.tell(SetPriority(job="second", priority=7))
    assert driver.state.jobs["j2"].priority == 7
    driver.tell(Cancel(job="second"))
    assert driver.job_state("j2") is JobState.CANCELLED
    driver.tell(Retry(job="second"))
    assert driver.job_state("j2") is JobState.PENDING


def test_a_job_comes_after_a_unique_name() -> None:
    driver = fleet(devices=1)
    driver.submit(script("prepare"), script("twin"), script("twin"))
    assert driver.submit(script("train", after=("prepare",))) == ("j4",)
    assert driver.state.jobs["j4"].after == ("j1",)
    with pytest.raises(SpecError, match=r"job 'x' comes after 'twin': 2 jobs are named 'twin': j3 \(pending\), j2"):
        driver.submit(script("x", after=("twin",)))
    with pytest.raises(SpecError, match="job 'x' comes after 'nothing', which is no job's id, key or name"):
        driver.submit(script("x", after=("nothing",)))


def test_a_key_of_the_same_submission_goes_before_a_name() -> None:
    driver = fleet(devices=1)
    driver.submit(script("a"))
    driver.submit(script("b", key="a"), script("c", after=("a",)))
    assert driver.state.jobs["j3"].after == ("j2",)


def test_name_that_no_job_has_brings_the_one_most_like_it() -> None:
    driver = fleet()
    driver.submit(script("train"), script("evaluate"))
    with pytest.raises(NotFound, match=r"there is no job 'trian'; did you mean 'train'\?; `hostler jobs` lists them"):
        find_job(driver.state, "trian")
    with pytest.raises(NotFound, match=r"there is no job 'other'; `hostler jobs` lists them"):
        find_job(driver.state, "other")


def test_name_of_several_jobs_has_their_ids_newest_first() -> None:
    driver = fleet()
    driver.submit(script("train"), script("train"))
    with pytest.raises(
        UsageError, match=r"2 jobs are named 'train': j2 \(.*\), j1 \(.*\)\. Name one of them by its id"
    ):
        find_job(driver.state, "train")
