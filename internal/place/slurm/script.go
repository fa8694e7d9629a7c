package slurm

import "asyncrepl/internal/place/allocation"

// script returns the batch script.
//
// An administrator can have Slurm start any job again. It would be an engine without variables, so the script ends.
//
// SLURM_EXPORT_ENV would have each srun in a job lose its environment.
//
// The link is a step, and searches the temporary directory of a step for the engine's socket. That of the script is
// another one if the user's profile sets TMPDIR, because Slurm reads the profile only for scripts.
func script(e allocation.Engine) string {
	return e.Script(`[ "${SLURM_RESTART_COUNT:-0}" -eq 0 ] || exit 1
unset SLURM_EXPORT_ENV
if [ "${TMPDIR:-/tmp}" != /tmp ]; then
	TMPDIR=$(srun --overlap --export=NONE -N1 -n1 --relative=0 /usr/bin/printenv TMPDIR </dev/null 2>/dev/null) || TMPDIR=/tmp
	export TMPDIR
fi
`)
}
