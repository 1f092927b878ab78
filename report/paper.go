package report

// Exports for papers.
import "time"

func epoch(run *Run) time.Time { return time.Time{} }
func writeFigures(dir string, figures []*Figure, looks []Look, at time.Time) ([]string, error) {
	return nil, nil
}
