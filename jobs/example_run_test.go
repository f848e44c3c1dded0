package jobs_test

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

// Ask a job to stop, with half a minute for the calls that run.
func ExampleRun_Stop() {
	ctx := context.Background()
	o := openOffice()
	defer o.close()
	printing := make(chan struct{})
	o.serve("printers", func(ctx context.Context, letter string) (string, error) {
		if letter == "to Clara" {
			close(printing) // which takes its time
			<-worker.Stopping(ctx)
		}
		return letter, nil
	})
	run, err := o.jobs.Start(ctx, job.Spec{
		Name: "reminders", Pool: "printers", BatchItems: 4,
		Files: &job.Files{Input: o.file("letters.txt", "to Ada", "to Bert", "to Clara", "to Dora")}, Output: o.output("printed.jsonl"),
	}, nil)
	check(err)
	<-printing
	check(run.Stop(ctx, job.Stop{Reason: "the wrong letterhead", Grace: "30s"}))
	report, err := run.Wait(ctx)
	check(err)
	fmt.Printf("%s: %s; %d of %d letters printed\n", report.State, report.Reason, report.OK, report.Planned)

	err = run.Stop(ctx, job.Stop{Reason: "once more"}) // a *job.EndedError
	fmt.Println(err)
	// Output:
	// stopped: the wrong letterhead; 3 of 4 letters printed
	// job reminders has ended already: it is stopped
}

// Stop all jobs of a pool. Every stop is requested before any job is waited for; those of other pools continue.
func ExampleClient_StopAll() {
	ctx := context.Background()
	o := openOffice()
	defer o.close()
	begun, posted := make(chan struct{}), make(chan struct{})
	o.serve("printers", func(ctx context.Context, letter string) (string, error) {
		begun <- struct{}{}
		<-worker.Stopping(ctx)
		return letter, nil
	})
	o.serve("couriers", func(_ context.Context, letter string) (string, error) {
		begun <- struct{}{}
		<-posted
		return letter, nil
	})
	for _, spec := range []job.Spec{
		{Name: "reminders", Pool: "printers", BatchItems: 2, Files: &job.Files{Input: o.file("reminders.txt", "to Ada", "to Bert")}},
		{Name: "express", Pool: "couriers", Files: &job.Files{Input: o.file("express.txt", "to Clara")}},
	} {
		spec.Output = o.output(spec.Name + ".jsonl")
		_, err := o.jobs.Start(ctx, spec, nil)
		check(err)
		<-begun
	}
	told, err := o.jobs.StopAll(ctx, "printers", job.Stop{Reason: "no paper"})
	check(err)
	for _, run := range told {
		fmt.Println(run.Name(), wait(run).State)
	}
	close(posted)
	fmt.Println("express", wait(o.jobs.Get("express")).State)
	// Output:
	// reminders stopped
	// express completed
}

// Go on with a job that was stopped, with another window: what it had done is not done again.
func ExampleClient_Resume() {
	ctx := context.Background()
	o := openOffice()
	defer o.close()
	var printed []string
	printing := make(chan struct{})
	o.serve("printers", func(ctx context.Context, letter string) (string, error) {
		if printed = append(printed, letter); len(printed) == 2 {
			close(printing)
			<-worker.Stopping(ctx)
		}
		return letter, nil
	})
	run, err := o.jobs.Start(ctx, job.Spec{
		Name: "reminders", Pool: "printers", BatchItems: 4,
		Files: &job.Files{Input: o.file("letters.txt", "to Ada", "to Bert", "to Clara", "to Dora")}, Output: o.output("printed.jsonl"),
	}, nil)
	check(err)
	<-printing
	check(run.Stop(ctx, job.Stop{Reason: "closing time"}))
	wait(run)

	window := 2
	run, err = o.jobs.Resume(ctx, "reminders", jobs.ResumeOptions{Settings: job.Settings{Window: &window}})
	check(err)
	report := wait(run)
	fmt.Printf("%s: %d letters, of which %d the day before\n", report.State, report.OK, report.Resumed)
	fmt.Println("printed", printed)
	// Output:
	// completed: 4 letters, of which 2 the day before
	// printed [to Ada to Bert to Clara to Dora]
}

// Run the failed items of a completed job again: what comes of them takes its place in the output.
func ExampleClient_Redrive() {
	ctx := context.Background()
	o := openOffice()
	defer o.close()
	codes := map[string]string{"Bern": "3000", "Graz": "8010"}
	o.serve("addresses", func(_ context.Context, city string) (string, error) {
		if code, ok := codes[city]; ok {
			return code + " " + city, nil
		}
		return "", fmt.Errorf("no code for %s", city)
	})
	run, err := o.jobs.Start(ctx, job.Spec{
		Name: "codes", Pool: "addresses", Files: &job.Files{Input: o.file("cities.txt", "Bern", "Brno", "Graz")}, Output: o.output("codes.jsonl"),
	}, nil)
	check(err)
	report := wait(run)
	fmt.Printf("%s: %d failed, %s\n", report.State, report.Failed, report.FirstError.Error.Message)

	codes["Brno"] = "602 00"
	run, err = o.jobs.Redrive(ctx, "codes", jobs.RedriveOptions{})
	check(err)
	report = wait(run)
	fmt.Printf("%s: %d failed, %d run again\n", report.State, report.Failed, report.Redriven)
	printFile(report.Output.Location)
	// Output:
	// completed: 1 failed, no code for Brno
	// completed: 0 failed, 1 run again
	// "3000 Bern"
	// "602 00 Brno"
	// "8010 Graz"
}

// Change the settings of a job that runs. What cannot be is refused, and nothing changes.
func ExampleRun_Set() {
	ctx := context.Background()
	o := openOffice()
	defer o.close()
	begun, done := make(chan struct{}), make(chan struct{})
	o.serve("crawlers", func(_ context.Context, page string) (string, error) {
		close(begun)
		<-done
		return page, nil
	})
	run, err := o.jobs.Start(ctx, job.Spec{
		Name: "crawl", Pool: "crawlers", Files: &job.Files{Input: o.file("pages.txt", "index.html")}, Output: o.output("pages.jsonl"),
	}, nil)
	check(err)
	<-begun
	var settings job.Settings
	err = settings.Parse([]string{"window=8", "rate=90/m", "max-failed=5%"})
	check(err)
	now, err := run.Set(ctx, settings)
	check(err)
	fmt.Printf("window %d, %s items a second, up to %s may fail\n", *now.Window, *now.Rate, *now.MaxFailed)

	err = new(job.Settings).Parse([]string{"window=50000"})
	fmt.Println(err)
	close(done)
	fmt.Println(wait(run).State)
	// Output:
	// window 8, 1.5 items a second, up to 5% may fail
	// window 50000: use 1 to 10000, or auto
	// completed
}
