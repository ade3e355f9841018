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
    command -v docker >/dev/null || refuse 'there is no docker on PATH'
    run=(docker run --rm --init --network host -u "$(id -u):$(id -g)" -v /shared/lab:/shared/lab -w /shared/lab)
    run+=(-e HOME=/tmp)
    for name in "${!SLURM_@}"; do
        run+=(-e "$name")
    done
    [ -n "${SLURM_JOB_GPUS:-${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}}" ] && run+=(--device /dev/kfd --device /dev/dri -e ROCR_VISIBLE_DEVICES)
    run+=(rocm/pytorch:6)
    ;;
aarch64 | arm64)
    refuse "is a $(uname -m), and neither slurm.venv_activate_arm64 nor slurm.container_image_arm64 is set"
    ;;
*)
    refuse "is a $(uname -m), which nobody has made an environment for"
    ;;
esac

cd -- /shared/lab || refuse 'there is no /shared/lab; slurm.shared_root is to be the same folder on every node'
exec ${run[@]+"${run[@]}"} python3 /shared/lab/.hostler/code/agent.pyz berth --root /shared/lab/.hostler --token hostler-a1 --idle-s 60
