package output_test

import (
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/output/outputtest"
)

func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		outputtest.Test(t, func(t *testing.T, limit int64) output.Store {
			return output.NewStore(output.Config{Cap: limit})
		})
	})
	t.Run("memory with disk", func(t *testing.T) {
		outputtest.Test(t, func(t *testing.T, limit int64) output.Store {
			dir := t.TempDir()
			return output.NewStore(output.Config{Cap: limit, Dir: func() (string, error) { return dir, nil }})
		})
	})
}
