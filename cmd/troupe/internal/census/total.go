package census

// Total is what a package, or a whole tree, has.
type Total struct {
	Packages     int `json:"packages"`
	Files        int `json:"files"`
	Lines        int `json:"lines"`
	Bytes        int `json:"bytes"`
	Declarations int `json:"declarations"`
	Comments     int `json:"comments"`
	Tested       int `json:"tested"` // packages with tests
	Tests        int `json:"tests"`
}

// Add returns the sum of both.
func (t Total) Add(other Total) Total {
	return Total{
		Packages: t.Packages + other.Packages, Files: t.Files + other.Files,
		Lines: t.Lines + other.Lines, Bytes: t.Bytes + other.Bytes,
		Declarations: t.Declarations + other.Declarations, Comments: t.Comments + other.Comments,
		Tested: t.Tested + other.Tested, Tests: t.Tests + other.Tests,
	}
}

// Combine makes the total of one package from its parts.
func Combine(listing Listing, size Size, declarations, comments, tests int) Total {
	total := Total{
		Packages: 1, Files: len(listing.Sources) + len(listing.Tests), Lines: size.Lines, Bytes: size.Bytes,
		Declarations: declarations, Comments: comments, Tests: tests,
	}
	if listing.HasTests() {
		total.Tested = 1
	}
	return total
}

// Count counts one package after the other, with neither workflow nor
// database: what the demo's result must equal. The loop ends early when more
// says no.
func Count(root string, packages []Package, more func() bool) (Total, error) {
	var sum Total
	for _, p := range packages {
		if !more() {
			break
		}
		total, err := countPackage(root, p.Path)
		if err != nil {
			return Total{}, err
		}
		sum = sum.Add(total)
	}
	return sum, nil
}

func countPackage(root, path string) (Total, error) {
	listing, err := List(root, path)
	if err != nil {
		return Total{}, err
	}
	size, err := CountSize(root, listing)
	if err != nil {
		return Total{}, err
	}
	declarations, err := CountDeclarations(root, listing)
	if err != nil {
		return Total{}, err
	}
	comments, err := CountComments(root, listing)
	if err != nil {
		return Total{}, err
	}
	tests, err := CountTests(root, listing)
	if err != nil {
		return Total{}, err
	}
	return Combine(listing, size, declarations, comments, tests), nil
}
