package jobs_test

import (
	"context"
	"fmt"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

// A greeter is a runner: it asks a question and ends with the answer.
type greeter struct{}

func (greeter) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	answers := make(chan string)
	p.SetInput(func(ctx context.Context, in jobs.Input) (jobs.Delivery, error) {
		p.SetRunning() // the question is answered: nothing waits any more
		select {
		case answers <- in.Text:
			return jobs.Delivery{Waiting: true}, nil
		case <-ctx.Done():
			return jobs.Delivery{}, context.Cause(ctx)
		}
	})
	p.Begin()
	p.Write(output.Stdout, []byte("Your name? "))
	p.SetWaiting(jobs.Question{Kind: "line", Prompt: "Your name? ", By: "the greeter"})
	select {
	case name := <-answers:
		p.Write(output.Stdout, []byte("Hello, "+name+".\n"))
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}, Result: "'done'", HasResult: true}
	case <-ctx.Done(): // the job was stopped, and the cause says by what
		st, _ := context.Cause(ctx).(*jobs.Stop)
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: st}}
	}
}

// A job is started, asks, is answered and ends. Its clients read its output from where they left
// off.
func Example() {
	ctx := context.Background()
	registry := jobs.NewRegistry(jobs.Config{})
	defer registry.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Terminate})

	job, err := registry.Start(jobs.Spec{Kind: jobs.Python, Title: "greet"}, greeter{})
	if err != nil {
		fmt.Println(err) // shutting down, or too many jobs
		return
	}
	job.Await(ctx) // until it ends or asks
	record, chunk := job.Read(0, 4096)
	fmt.Printf("%s: %q, cursor %d\n", record.Status, record.Question.Prompt, chunk.Next)

	if _, err := job.Send(ctx, jobs.Input{Text: "world", Line: true}); err != nil {
		fmt.Println(err)
	}
	<-job.Done()
	record, chunk = job.Read(chunk.Next, 4096)
	fmt.Println(record.Receipt.Text())
	for _, span := range chunk.Spans {
		fmt.Printf("%s: %s", span.Stream, span.Data)
	}
	// Output:
	// waiting_input: "Your name? ", cursor 11
	// completed
	// stdout: Hello, world.
	// result: 'done'
}

// A receipt becomes one status and one line of text.
func ExampleReceipt_Text() {
	for _, r := range []jobs.Receipt{
		{End: jobs.Exited, Code: 3},
		{End: jobs.Raised, Detail: "ValueError: bad literal", State: jobs.Kept},
		{End: jobs.Signaled, Signal: "SIGSEGV", State: jobs.Lost},
		{End: jobs.Raised, Stop: &jobs.Stop{By: jobs.Agent}, Rungs: []jobs.Rung{jobs.Interrupt}, State: jobs.Kept},
	} {
		fmt.Println(r.Text())
	}
	// Output:
	// failed (exit 3)
	// failed (ValueError: bad literal)
	// failed (killed by SIGSEGV; variables lost)
	// cancelled (interrupted; variables kept)
}
