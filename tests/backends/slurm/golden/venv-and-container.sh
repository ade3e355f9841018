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
    [ -r /v/bin/activate ] || refuse 'there is no /v/bin/activate, which slurm.venv_activate names'
    set +u
    source /v/bin/activate
    set -u
    ;;
aarch64 | arm64)
    command -v apptainer >/dev/null || refuse 'there is no apptainer on PATH'
    run=(apptainer exec --bind /shared/lab --pwd /shared/lab)
    [ -n "${SLURM_JOB_GPUS:-${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}}" ] && run+=(--nv)
    run+=(/i/arm.sif)
    ;;
*)
    refuse "is a $(uname -m), which nobody has made an environment for"
    ;;
esac

cd -- /shared/lab || refuse 'there is no /shared/lab; slurm.shared_root is to be the same folder on every node'
exec ${run[@]+"${run[@]}"} python3 /shared/lab/.hostler/code/agent.pyz berth --root /shared/lab/.hostler --token hostler-a1 --idle-s 60
