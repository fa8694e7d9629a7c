//go:build unix

package people

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

func (c *Config) completion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		ValidArgs: shells, Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				if _, err := io.WriteString(c.Out, bashWords); err != nil {
					return err
				}
				return root.GenBashCompletionV2(c.Out, true)
			case "zsh":
				return root.GenZshCompletion(c.Out)
			}
			return root.GenFishCompletion(c.Out, true)
		},
	}
}

// bashWords stands in for what cobra's script for bash takes from the package bash-completion, which
// not every system has. That package replaces it if it is loaded later.
const bashWords = `declare -F _get_comp_words_by_ref >/dev/null || _get_comp_words_by_ref() {
    cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
}
`

// completeJobs returns what completes the ids of the jobs that a command can be about, each with
// what it runs. A command for one job has no second id.
func (c *Config) completeJobs(all, several bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := c.look(cmd.Context(), all)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		list := s.Past
		for _, e := range s.Engines {
			list = append(list, e.Jobs...)
		}
		newestFirst(list)
		var found []cobra.Completion
		for _, j := range list {
			if !slices.Contains(args, j.ID) {
				found = append(found, cobra.CompletionWithDesc(j.ID, fmt.Sprintf("%s: %s", jobs.Status(j.Status), view.Line(j.Title, titleMax))))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
