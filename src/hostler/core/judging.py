"""An attempt has ended, or was lost: is its result good, is it tried again, or is the job given up?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from hostler.core import dependencies, environments, forecast, gates
from hostler.core.index import Index
from hostler.core.loop import closing, intake as loop
from hostler.core.state import Job, State
from hostler.core.trust import decide as trust
from hostler.model import events, inputs
from hostler.model.events import Event, job_of
from hostler.model.work import DeviceKind, FailureClass, JobState, ScriptPayload, StagePayload, snapshot_of
from hostler.policy import retry

Emit: TypeAlias = Callable[[Event], None]


def failure_of(
    payload: ScriptPayload | StagePayload, ended: inputs.Ended, *, gpu: bool
) -> tuple[FailureClass, str] | None:
    """Why an attempt that ended this way came to nothing; `None` if it succeeded, as far as its process tells."""
    if ended.reason in retry.REASONS or ended.signal is not None or ended.exit_code != 0:
        found = _diagnosis(ended, gpu)
        return found.failure, (ended.reason and ended.error) or found.why
    if ended.result_error is not None:
        return FailureClass.RESULT, f"exit status 0, but its result is unusable: {ended.result_error}"
    if isinstance(payload, ScriptPayload) and payload.require_result and ended.result is None:
        return FailureClass.RESULT, "exit status 0, but it left no result in $HOSTLER_RESULT"
    return None


def judge(state: State, index: Index, job: Job, ended: inputs.Ended, emit: Emit) -> None:
    """An attempt has ended: accept its result, try again, or give the job up."""
    payload = job.spec.payload
    failure = told_failure(state, job, ended)
    if isinstance(payload, StagePayload) and ended.reason is None:
        failure = loop.stage_failure(state, job, failure, ended.result)
    if failure is None and ended.reason is None:
        _accept(state, job, ended, emit)
        return
    if isinstance(payload, StagePayload):
        loop.salvage(state, job, ended, emit)
        closing.write_off(state, ended.attempt, failure[1] if failure else ended.error or "it was stopped", emit)
    if job.cancelling is not None:
        emit(events.JobCancelled(job=job.id))
        fail_dependents(state, index, job.id, emit)
    elif ended.reason == retry.ENVIRONMENT and failure is not None:
        environments.failed(state, index, job, ended, emit)
        fail_attempt(state, index, job, *failure, emit, ended=ended)
    elif ended.reason == retry.FULL:
        _turned_away(state, index, job, ended, emit)
    elif failure is None or ended.reason == "stopped" or _was_short(job, ended) or _never_came(job, ended):
        _take_back(state, job, ended, emit)
    else:
        fail_attempt(state, index, job, *failure, emit, ended=ended)


def fail_attempt(
    state: State,
    index: Index,
    job: Job,
    failure: FailureClass,
    what: str,
    emit: Emit,
    *,
    ended: inputs.Ended | None = None,
) -> None:
    """`ended` is what the attempt's node saw of its end; `None` where it was not there to see it."""
    failures = {**job.failures, failure: job.failures.get(failure, 0) + 1}
    found = None if ended is None else _diagnosis(ended, _on_gpu(state, job))
    vram = found is not None and failure is FailureClass.MEMORY and found.vram
    doubtful = found is not None and failure is found.failure and found.doubtful
    verdict = retry.verdict(job.spec.retry, failures, failure, trust.where(state, job), vram=vram, doubtful=doubtful)
    why = f"{what} ({verdict.why})"
    reason = None if ended is None else ended.reason
    against = trust.against(state, job, failure, reported=ended is not None, doubtful=doubtful)
    is_over = reason in (retry.ENVIRONMENT, retry.SCRIPT, retry.SECRET)
    is_permanent = reason in (retry.COMMAND, retry.IMPORTS, retry.REFUSED)
    if is_over or reason in (retry.IMPORTS, retry.REFUSED):
        against = ()  # no device is worse for it
    if is_permanent:
        verdict = replace(verdict, avoid_s=retry.NEVER_S)
    if is_permanent or is_over:
        why = _told(state, job, what, reason)
    if verdict.again and not is_over:
        requeued = trust.requeued(state, index, job, failure, verdict, why, _takes(state, index, job), against)
        if not is_permanent or requeued.avoid is not None:
            emit(requeued)
            return
    emit(events.JobFailed(job=job.id, failure=failure, why=why, against=against))
    fail_dependents(state, index, job.id, emit)
    if isinstance(job.spec.payload, StagePayload):
        loop.after_failed(state, index, job, why, emit)


def lose(state: State, index: Index, attempt: str, evidence: str, emit: Emit) -> None:
    """An attempt is over, and nothing more is to be heard of it: its job is cancelled, tried again, or given up."""
    job = state.jobs[job_of(attempt)]
    closing.write_off(state, attempt, evidence, emit)
    emit(events.AttemptLost(attempt=attempt, evidence=evidence))
    if job.cancelling is not None:
        emit(events.JobCancelled(job=job.id))
        fail_dependents(state, index, job.id, emit)
    else:
        fail_attempt(state, index, job, FailureClass.LOST, evidence, emit)


def _was_short(job: Job, ended: inputs.Ended) -> bool:
    """Whether nothing failed but the time of its allocation, and it is given more: no budget is for that."""
    return ended.reason == retry.SHORT and job.cut_off <= retry.SHORT_MOST


def _never_came(job: Job, ended: inputs.Ended) -> bool:
    """Whether an attempt was asked to leave before its node had heard of it."""
    return job.attempt is not None and job.attempt.yielding is not None and ended.reason == "unknown"


def _told(state: State, job: Job, what: str, reason: str | None) -> str:
    """What kept a job from being started, and what to do about it."""
    if reason == retry.COMMAND or job.attempt is None:
        return f"{what}. {_remedy(job)}"
    if reason == retry.SCRIPT:
        return f"{what}. {_remedy_of_script(job)}"
    if reason == retry.SECRET:
        return f"{what}, then run `hostler retry {job.id}`"
    if reason == retry.REFUSED:
        return f"no process can be started from this job: {what}. Submit it with another command or environment"
    node = state.nodes[state.devices[job.attempt.device].spec.node].spec
    if reason == retry.IMPORTS:
        return (
            f"{node.name}: {what}. State them in requirements.txt of the folder and submit it again, or set `python` "
            f"of {node.name} to an interpreter that has them and `hostler retry {job.id}`; where the script finds them "
            "by itself, submit it with --python-env none"
        )
    file = environments.file_of(job.spec.payload, node) or "its file"
    how, _, lines = what.partition("\n")
    return (
        f"the Python environment of {file} could not be built on {node.name}: {how}. Correct {file} and submit it "
        f"again, or mend node {node.name} and run `hostler retry {job.id}`.{retry.PRINTED}{lines}"
    )


def _remedy(job: Job) -> str:
    """What to do about a command that cannot run; the files of a snapshot stay as they were at submission."""
    if snapshot_of(job.spec.payload) is not None:
        return f"Submit a corrected command or folder, or install the program there and `hostler retry {job.id}`"
    return f"Submit a corrected command, or put there what is missing and `hostler retry {job.id}`"


def _remedy_of_script(job: Job) -> str:
    """What to do about a script that is not in the folder of its job, or cannot be used there."""
    if snapshot_of(job.spec.payload) is not None:
        return "Each attempt starts from the same files: submit a corrected command or folder"
    return _remedy(job)


def _takes(state: State, index: Index, job: Job) -> Callable[[str], bool]:
    """Whether a device may take the job some time: what passes by itself, as use by others, is waited for."""
    return lambda name: gates.lasting_refusal(state, index, job, state.devices[name]) is None


def told_failure(state: State, job: Job, ended: inputs.Ended) -> tuple[FailureClass, str] | None:
    """Why the job's attempt came to nothing, as far as its process tells."""
    payload = job.spec.payload
    assert isinstance(payload, ScriptPayload | StagePayload)
    return failure_of(payload, ended, gpu=_on_gpu(state, job))


def _diagnosis(ended: inputs.Ended, gpu: bool) -> retry.Diagnosis:
    return retry.classify(ended.exit_code, ended.signal, ended.reason, ended.evidence, gpu=gpu)


def _take_back(state: State, job: Job, ended: inputs.Ended, emit: Emit) -> None:
    """An attempt that was asked to go has gone; what it saved need not be done again."""
    attempt = job.attempt
    assert attempt is not None
    why = ended.error if _was_short(job, ended) and ended.error else f"called back: {attempt.yielding or ended.reason}"
    device = state.devices[attempt.device].spec
    # Where its files are not this machine's, what it saved in its folder is gone with that.
    apart = state.nodes[device.node].spec.apart
    saved = None if apart else forecast.saved(job, device, attempt.elapsed_s)
    emit(events.JobRequeued(job=job.id, failure=None, not_before=state.at, why=why, progress=saved))


def _turned_away(state: State, index: Index, job: Job, ended: inputs.Ended, emit: Emit) -> None:
    """Its node had no room for it, and nothing has begun: nobody failed, and no budget is for that."""
    assert job.attempt is not None
    verdict = retry.Verdict(
        again=True, rest_s=retry.FULL_REST_S, why=retry.FULL, avoid="node", avoid_s=retry.FULL_AVOID_S
    )
    node = state.devices[job.attempt.device].spec.node
    why = f"the disk of {node} has no room for it: {ended.error or 'it did not say how much'}"
    emit(trust.requeued(state, index, job, None, verdict, why, _takes(state, index, job)))


def _accept(state: State, job: Job, ended: inputs.Ended, emit: Emit) -> None:
    if not isinstance(job.spec.payload, StagePayload):
        emit(events.JobDone(job=job.id, attempt=ended.attempt, result=ended.result))
        return
    kept = loop.accept(state, job, ended.result, emit)
    closing.write_off(state, ended.attempt, "its last result names them no more", emit)
    emit(events.JobDone(job=job.id, attempt=ended.attempt, result=kept))
    loop.after_done(state, job, emit)


def _on_gpu(state: State, job: Job) -> bool:
    assert job.attempt is not None
    return state.devices[job.attempt.device].spec.kind is not DeviceKind.CPU


def fail_dependents(state: State, index: Index, job: str, emit: Emit) -> None:
    """Whoever waits for a job that will not be done fails too, down the whole tree."""
    doomed = list(dependencies.names_of(state.jobs[job]))
    while doomed:
        for name in list(index.dependents.get(doomed.pop(), ())):
            if state.jobs[name].state is JobState.PENDING:
                fail_if_orphaned(state, state.jobs[name], emit)
                doomed.extend(dependencies.names_of(state.jobs[name]))


def fail_if_orphaned(state: State, job: Job, emit: Emit) -> None:
    """A job that waits for one that will not be done fails."""
    gone = dependencies.never_done(state, job)
    if gone and job.state is JobState.PENDING:
        why = f"it comes after {', '.join(gone)}, which will not be done; `hostler retry {gone[0]}` revives both"
        emit(events.JobFailed(job=job.id, failure=FailureClass.DEPENDENCY, why=why))
