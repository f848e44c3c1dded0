// Package page is stint's own page: what runs, how far it is, what has failed, and until when, for people to look at;
// and the JSON API that it uses, for programs.
//
//	page.go      what it is made of: options, routes, what answers them
//	doors.go     who may: Host and Origin, tokens, cookies, what a browser may load
//	ask.go       what is asked of the server, in the shapes that commands print as JSON
//	memory.go    what is kept of jobs from one look to the next
//	examples.go  failed items of a job, from its store
//	hub.go       what open pages show is asked for once for all of them, and not too often
//	events.go    live updates
//	api.go       the API, its errors and its description
//	action.go    what people can have a job do, and the commands for it
//	listview.go, jobview.go, stageview.go, kindview.go, workerview.go   what templates get
//	plot.go      plots
//	words.go     numbers and times, for people
//	render.go    templates, styles and the script
//	server.go    listening
//	report.go    a job's page alone in a file
//	assets/      templates, styles, the script
package page
