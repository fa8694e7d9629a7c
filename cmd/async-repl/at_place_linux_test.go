package main

import (
	"asyncrepl/internal/test/slurmtest"
	"asyncrepl/internal/test/sshdtest"
)

// Each test has an sshd or a cluster of its own.
func init() {
	carriers["ssh"] = func(s *started) map[string]any {
		return map[string]any{"ssh": sshdtest.Start(s.t).Args()}
	}
	carriers["slurm"] = func(s *started) map[string]any {
		c := slurmtest.Start(s.t)
		s.cmd.Env = append(s.cmd.Env, "SLURM_CONF="+c.Conf)
		return map[string]any{"slurm": []string{"--partition=short", "--time=10"}}
	}
}
