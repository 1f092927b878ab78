package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"troupe/ope"
	"troupe/report"
)

func (e *evaluation) openDirectory() (*filtered, error) {
	return nil, misuse(errors.New("a directory"))
}

// page writes the page; its name says what was evaluated.
func (e *evaluation) page(r *ope.Result) (string, error) {
	dir := e.out
	if dir == "" {
		name := strings.TrimSuffix(filepath.Base(e.source), filepath.Ext(e.source))
		if r.Log.Model != nil {
			name = *r.Log.Model
		}
		dir = filepath.Join("runs", "evaluate-"+name)
	}
	return report.BuildEvaluation(dir, r, report.EvaluateMeta{When: time.Now().Format("2 January 2006"), Command: commandLine(os.Args[1:])})
}
