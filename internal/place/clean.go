package place

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/config"
	"asyncrepl/internal/place/slurm"
)

// ErrNothingToClean is the error of Clean for a place that keeps nothing of ours.
var ErrNothingToClean = errors.New("a pod takes all that was brought to it along when it ends")

// Clean removes what was brought to a place, unless it is in use there. A cluster of Slurm is cleaned where its
// commands run, which has the home directory of the nodes.
func (ps *Places) Clean(ctx context.Context, name string) (carry.Swept, error) {
	p, err := ps.place(name)
	if err != nil {
		return carry.Swept{}, err
	}
	if p.Kind == config.Kubernetes {
		return carry.Swept{}, ErrNothingToClean
	}
	if cluster, ok := p.allocator.(*slurm.Cluster); ok {
		ids, err := cluster.Ours(ctx)
		if err != nil {
			return carry.Swept{}, err
		}
		if len(ids) > 0 {
			return carry.Swept{}, fmt.Errorf("it is in use by Slurm job %s: end these, or wait for their ends", strings.Join(ids, ", "))
		}
	}
	return carry.Clean(ctx, p.spec(p.Exec))
}
