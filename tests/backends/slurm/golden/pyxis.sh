#!/bin/bash
# Written by Hostler for its batch hostler-a1; it is not read again after submission.
set -euo pipefail
trap 'echo "hostler: line $LINENO of the batch script has failed: $BASH_COMMAND" >&2' ERR

refuse() {
    echo "hostler: $(hostname): $1" >&2
    exit 78
}

# It keeps srun from handing on this environment; sbatch leaves it behind.
unset SLURM_EXPORT_ENV
run=()

case "$(uname -m)" in
x86_64 | amd64)
    command -v srun >/dev/null || refuse 'there is no srun on PATH'
    # Since 22.05 srun does not take the CPUs of a task from its job.
    run=(srun --export=ALL --nodes=1 --ntasks=1 "--cpus-per-task=${SLURM_CPUS_PER_TASK:-1}")
    run+=('--container-image=nvcr.io#nvidia/pytorch:25.01' --container-mounts=/shared/lab:/shared/lab)
    run+=(--container-workdir=/shared/lab --mpi=none)
    ;;
aarch64 | arm64)
    refuse "is a $(uname -m), and neither slurm.venv_activate_arm64 nor slurm.container_image_arm64 is set"
    ;;
*)
    refuse "is a $(uname -m), which nobody has made an environment for"
    ;;
esac

cd -- /shared/lab || refuse 'there is no /shared/lab; slurm.shared_root is to be the same folder on every node'
[ "${#run[@]}" -gt 0 ] || exec python3 /shared/lab/.hostler/code/agent.pyz berth --root /shared/lab/.hostler --token hostler-a1 --idle-s 60
child=
ended=
pass_on() {
    [ -z "$child" ] || scancel --signal=TERM "$SLURM_JOB_ID" || kill -TERM "$child"
}
# Before the step starts: a signal that comes first is passed on once there is one.
trap 'ended=1; pass_on' TERM
"${run[@]}" python3 /shared/lab/.hostler/code/agent.pyz berth --root /shared/lab/.hostler --token hostler-a1 --idle-s 60 &
child=$!
[ -z "$ended" ] || pass_on
while true; do
    status=0
    wait "$child" || status=$?
    kill -0 "$child" 2>/dev/null || break
done
exit "$status"
