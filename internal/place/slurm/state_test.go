package slurm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/test/must"
)

// recorded returns a Cluster whose commands answer so.
func recorded(t *testing.T, out string, err error) *Cluster {
	return must.Get(New(nil, "K", func(context.Context, []string, string) (string, error) { return out, err }))(t)
}

// What squeue of Slurm 22.05 has said about jobs in each state.
func TestRecordedStates(t *testing.T) {
	now := time.Date(2026, 11, 27, 9, 46, 0, 0, time.FixedZone("", 3600))
	at := func(hour, minute, second int) time.Time {
		return time.Date(2026, 11, 27, hour, minute, second, 0, time.UTC)
	}
	want := map[string]allocation.State{
		"1":  {Phase: allocation.Ended, Text: "Slurm job 1", Node: "n1", Start: at(8, 39, 49), End: "Slurm: COMPLETED"},
		"4":  {Phase: allocation.Ended, Text: "Slurm job 4", Start: at(8, 40, 5), End: "Slurm: CANCELLED"},
		"7":  {Phase: allocation.Ended, Text: "Slurm job 7", Node: "n1", Start: at(8, 40, 42), End: "node n1 lost: Slurm NODE_FAIL"},
		"8":  {Phase: allocation.Ended, Text: "Slurm job 8", Node: "n2", Start: at(8, 40, 42), End: "allocation's time limit"},
		"9":  {Phase: allocation.Ended, Text: "Slurm job 9", Node: "n2", Start: at(8, 40, 43), End: "Slurm: CANCELLED"},
		"10": {Phase: allocation.Ended, Text: "Slurm job 10", Node: "n2", Start: at(8, 40, 43), End: "Slurm: FAILED, NonZeroExitCode"},
		"15": {Phase: allocation.Ended, Text: "Slurm job 15", Start: at(8, 45, 40), End: "Slurm: FAILED, BadConstraints"},
		"12": {Phase: allocation.Pending, Text: "Slurm job 12, Resources, expected start 09:55", Start: at(8, 55, 40)},
		"13": {Phase: allocation.Pending, Text: "Slurm job 13, PartitionTimeLimit: its time limit is over the partition's, so it pends for ever; cancel it and ask for less time"},
		"16": {Phase: allocation.Pending, Text: "Slurm job 16, BeginTime, expected start 2026-11-28 10:45", Start: at(33, 45, 40)},
		"17": {Phase: allocation.Pending, Text: "Slurm job 17, PartitionNodeLimit: it asks for more nodes than the partition allows, so it pends for ever; cancel it and ask for fewer"},
		"18": {Phase: allocation.Pending, Text: "Slurm job 18, DependencyNeverSatisfied: it depends on a job that has failed, so it pends for ever; cancel it"},
		"20": {Phase: allocation.Pending, Text: "Slurm job 20, Priority, expected start 09:55", Start: at(8, 55, 40)},
		"14": {Phase: allocation.Pending, Text: "Slurm job 14, JobHeldUser: it is held until someone runs scontrol release 14"},
		"11": {Phase: allocation.Running, Text: "Slurm job 11, node n1", Node: "n1", Start: at(8, 45, 40), Deadline: at(8, 55, 40)},
		"2":  {Phase: allocation.Running, Text: "Slurm job 2, node n1", Node: "n1", Start: at(8, 39, 51), Deadline: at(8, 49, 51)},
		"22": {Phase: allocation.Cut, Text: "Slurm job 22, SUSPENDED", Node: "n1", Start: at(8, 45, 40)},
		"23": {Phase: allocation.Cut, Text: "Slurm job 23, COMPLETING", Node: "n1", Start: at(8, 45, 40)},
		// A job of another name, an array, and what squeue did not print.
		"3":  forgotten("3"),
		"21": forgotten("21"),
		"99": {Phase: allocation.Unknown, Text: "Slurm job 99", End: "Slurm no longer knows job 99; how it ended is unknown"},
	}
	got := make(map[string]allocation.State)
	for id := range want {
		got[id] = forgotten(id)
	}
	out := string(must.Get(os.ReadFile("testdata/squeue.txt"))(t))
	recorded(t, "", nil).read(out, got, now)
	for id, want := range want {
		if got[id] != want {
			t.Errorf("job %s:\ngot  %+v\nwant %+v", id, got[id], want)
		}
	}
	states := must.Get(recorded(t, out, nil).States(t.Context(), []string{"7", "99", "-M all"}))(t)
	if len(states) != 3 || states["7"] != want["7"] || states["99"] != want["99"] || states["-M all"].Phase != allocation.Unknown {
		t.Errorf("states: %+v", states)
	}
}

// States that the recorded cluster was not brought to, and reasons that have no other test.
func TestStates(t *testing.T) {
	now := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	for fields, want := range map[string]allocation.State{
		"NODE_FAIL|NodeDown|N/A|N/A|n[1-2]|n1":                                          {Phase: allocation.Ended, Text: "Slurm job 5", Node: "n1", End: "a node lost: Slurm NODE_FAIL"},
		"NODE_FAIL|NodeDown|N/A|N/A||":                                                  {Phase: allocation.Ended, Text: "Slurm job 5", End: "a node lost: Slurm NODE_FAIL"},
		"OUT_OF_MEMORY|OutOfMemory|N/A|N/A|n1|n1":                                       {Phase: allocation.Ended, Text: "Slurm job 5", Node: "n1", End: "Slurm: OUT_OF_MEMORY"},
		"PREEMPTED|None|N/A|N/A|n1|n1":                                                  {Phase: allocation.Ended, Text: "Slurm job 5", Node: "n1", End: "Slurm: PREEMPTED"},
		"REQUEUE_HOLD|None|N/A|N/A|n1|n1":                                               {Phase: allocation.Ended, Text: "Slurm job 5", Node: "n1", End: "Slurm: REQUEUE_HOLD", Remains: true},
		"CONFIGURING|None|N/A|N/A|n1|n1":                                                {Phase: allocation.Pending, Text: "Slurm job 5, CONFIGURING", Node: "n1"},
		"PENDING|None|2026-11-27T08:00:00|N/A||":                                        {Phase: allocation.Pending, Text: "Slurm job 5", Start: now.Add(-time.Hour)},
		"PENDING|QOSMaxWallDurationPerJobLimit|N/A|N/A||":                               {Phase: allocation.Pending, Text: "Slurm job 5, QOSMaxWallDurationPerJobLimit: it asks for more than a job of this account may have, so it pends for ever; cancel it and ask for less"},
		"PENDING|ReqNodeNotAvail, UnavailableNodes:n[1-9]|2026-11-27T14:20:00|N/A||n/a": {Phase: allocation.Pending, Text: "Slurm job 5, ReqNodeNotAvail, UnavailableNodes:n[1-9], expected start 14:20", Start: now.Add(5*time.Hour + 20*time.Minute)},
		"RUNNING|None|2026-11-27T08:00:00|NONE||":                                       {Phase: allocation.Running, Text: "Slurm job 5", Start: now.Add(-time.Hour)},
		"DREAMING|None|N/A|N/A|n1|n1":                                                   {Phase: allocation.Cut, Text: "Slurm job 5, DREAMING", Node: "n1"},
		"PENDING|\x1b[2J\u202e|N/A|N/A||":                                               {Phase: allocation.Pending, Text: `Slurm job 5, \x1b[2J\u202e`},
	} {
		got := map[string]allocation.State{"5": forgotten("5")}
		recorded(t, "", nil).read(" 5|"+fields+"|async-repl-K-x\r\n5|RUNNING|None|N/A|N/A|n9|n9|async-repl-K-x\n", got, now)
		if got["5"] != want {
			t.Errorf("%q:\ngot  %+v\nwant %+v", fields, got["5"], want)
		}
	}
}

// What the commands have said when they failed.
func TestRecordedErrors(t *testing.T) {
	said := func(program string, code int, text string) error {
		return &allocation.Error{Program: program, Code: code, Text: text, Reached: program != "ssh"}
	}
	down := said("env", 1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
	if _, err := recorded(t, "", down).States(t.Context(), []string{"7"}); err == nil || err.Error() != "squeue: slurm_load_jobs error: Unable to contact slurm controller (connect failure)" {
		t.Errorf("States without slurmctld: %v", err)
	}
	unknown := said("env", 1, "slurm_load_jobs error: Invalid job id specified")
	if states, err := recorded(t, "", unknown).States(t.Context(), []string{"7"}); err != nil || states["7"] != forgotten("7") {
		t.Errorf("States of an unknown job: %v %v", states, err)
	}
	// The same words from a machine that was not reached say nothing about a job.
	if _, err := recorded(t, "", said("ssh", 255, "Invalid job id specified")).States(t.Context(), []string{"7"}); err == nil {
		t.Error("States through a broken ssh: no error")
	}
	for text, fails := range map[string]bool{
		"scancel: error: Kill job error on job id 99: Invalid job id specified":                 false,
		"scancel: error: Kill job error on job id 99: Job/step already completing or completed": false,
		"scancel: error: Kill job error on job id 99: Access/permission denied":                 true,
	} {
		err := recorded(t, "", said("env", 1, text)).Release(t.Context(), "99", "x")
		if (err != nil) != fails || fails && err.Error() != "scancel: Kill job error on job id 99: Access/permission denied" {
			t.Errorf("Release, %s: %v", text, err)
		}
	}
	for _, c := range []struct {
		out  string
		err  error
		want string
	}{
		{"", said("env", 1, "sbatch: error: invalid partition specified: nope; sbatch: error: Batch job submission failed: Invalid partition name specified"),
			"sbatch: invalid partition specified: nope; Batch job submission failed: Invalid partition name specified"},
		{"", said("env", 127, "env: 'sbatch': No such file or directory"), "sbatch: there is no such program on the PATH"},
		{"", said("ssh", 255, "me@login: Permission denied (publickey)."), "ssh: me@login: Permission denied (publickey)."},
		{"", context.DeadlineExceeded, "context deadline exceeded"},
		{"Submitted batch job 12\n", nil, `sbatch printed no job id: "Submitted batch job 12"`},
		{"", nil, `sbatch printed no job id: ""`},
		{"12345678901\n", nil, `sbatch printed no job id: "12345678901"`},
	} {
		if id, err := recorded(t, c.out, c.err).Allocate(t.Context(), "x", allocation.Engine{}); err == nil || err.Error() != c.want || id != "" {
			t.Errorf("Allocate: got %q %v, want %s", id, err, c.want)
		}
	}
	for out, want := range map[string]string{"12\n": "12", "Welcome!\n12;cluster\n": "12", "12": "12"} {
		if id, err := recorded(t, out, nil).Allocate(t.Context(), "x", allocation.Engine{}); id != want || err != nil {
			t.Errorf("Allocate, %q: got %q %v", out, id, err)
		}
	}
}

// Options that would break an allocation are refused, others are not.
func TestOptions(t *testing.T) {
	for _, good := range []string{"", "--partition=short --gres=gpu:1", "-p short -t 10 --mem=4G", "--partition short", "-pshort", "--wait-all-nodes=1", "--exclusive -N2", "--account=a,b"} {
		if err := checkOptions(strings.Fields(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"--array=1-3":              `the option "--array=1-3" of "slurm" can't be used: each session has an allocation of its own`,
		"--arr 1":                  `the option "--arr" of "slurm" can't be used: each session has an allocation of its own`,
		"-a1":                      `the option "-a1" of "slurm" can't be used: each session has an allocation of its own`,
		"-p short -W":              `the option "-W" of "slurm" can't be used: it waits for the end of the job`,
		"--export=ALL":             `the option "--export=ALL" of "slurm" can't be used: the environment stays here; use "setup" to set variables there`,
		"--requeue":                `the option "--requeue" of "slurm" can't be used: a job that starts again has lost its variables`,
		"-J x":                     `the option "-J" of "slurm" can't be used: the name says whose job it is`,
		"--partition=short job.sh": `"job.sh" in "slurm" is no option of sbatch; give options only, such as "--partition=short"`,
		"-p short job.sh":          `"job.sh" in "slurm" is no option of sbatch; give options only, such as "--partition=short"`,
		"short":                    `"short" in "slurm" is no option of sbatch; give options only, such as "--partition=short"`,
		"-p short : -p long":       `":" in "slurm" is no option of sbatch; give options only, such as "--partition=short"`,
		"--":                       `"--" in "slurm" is no option of sbatch; give options only, such as "--partition=short"`,
		"-":                        `"-" in "slurm" is no option of sbatch; give options only, such as "--partition=short"`,
	} {
		if _, err := New(strings.Fields(bad), "K", nil); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", bad, err, want)
		}
	}
	if err := checkOptions([]string{"--comment=a\nb"}); err == nil {
		t.Error("an option of two lines is allowed")
	}
	for _, key := range []string{"", "a,b", "a b", "-x", strings.Repeat("a", 65)} {
		if _, err := New(nil, key, nil); err == nil {
			t.Errorf("the key %q is allowed", key)
		}
	}
}

// The options of the person come before those that they can't replace, names stay one name, and ids are digits.
func TestCommands(t *testing.T) {
	var got [][]string
	c := must.Get(New([]string{"--output=/x"}, "K", func(_ context.Context, argv []string, stdin string) (string, error) {
		for i, word := range argv { // the variables come before the command
			if strings.HasPrefix(word, "s") {
				got = append(got, argv[i:])
				break
			}
		}
		return "7", nil
	}))(t)
	must.Get(c.Allocate(t.Context(), "a,b é/|c", allocation.Engine{}))(t)
	must.Do(t, c.Release(t.Context(), "7", "a,b é/|c"))
	must.Do(t, c.Release(t.Context(), "", "x"))
	must.Get(c.States(t.Context(), []string{"7", "7,8", "9", ""}))(t)
	want := `[[sbatch --parsable --output=/dev/null --chdir=/ --output=/x --no-requeue --export=NONE --job-name=async-repl-K-a%2Cb+%C3%A9%2F%7Cc] ` +
		`[scancel --name=async-repl-K-a%2Cb+%C3%A9%2F%7Cc 7] [scancel --name=async-repl-K-x] ` +
		`[squeue --noheader --states=all --jobs=7,9 --format=%i|%T|%r|%S|%e|%N|%B|%j]]`
	if fmt.Sprint(got) != want {
		t.Errorf("got\n%v, want\n%s", got, want)
	}
	if err := c.Release(t.Context(), "--user=root", "x"); err == nil || err.Error() != `"--user=root" is no id of a Slurm job` {
		t.Errorf("Release of no id: %v", err)
	}
	if _, err := c.States(t.Context(), []string{"x"}); err != nil || len(got) != 4 {
		t.Errorf("States of no id: %v, commands %v", err, got)
	}
	if argv := c.Carrier("7; reboot"); argv[len(argv)-1] != "--jobid=" {
		t.Errorf("carrier of no id: %q", argv)
	}
}

// Whatever squeue prints, each job that was asked for has a state, and each text is a line.
func FuzzStates(f *testing.F) {
	f.Add(string(must.Get(os.ReadFile("testdata/squeue.txt"))(f)))
	f.Add("7|PENDING|\n|x\x1b]0;t\a|||async-repl-K-\n7|RUNNING")
	f.Fuzz(func(t *testing.T, out string) {
		states, err := recorded(t, out, nil).States(t.Context(), []string{"7", "1", "\x1b[2J"})
		if err != nil || len(states) != 3 {
			t.Fatalf("got %v %v", states, err)
		}
		for id, s := range states {
			ended := s.Phase == allocation.Ended || s.Phase == allocation.Unknown
			if s.Phase < allocation.Pending || s.Phase > allocation.Unknown || ended != (s.End != "") {
				t.Errorf("%q: %+v", id, s)
			}
			for _, text := range []string{s.Text, s.Node, s.End} {
				if len(text) > 4096 || strings.ContainsFunc(text, unicode.IsControl) {
					t.Errorf("%q: %q", id, text)
				}
			}
		}
	})
}
