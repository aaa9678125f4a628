// A small fetcher for a Toehold frontier: it takes leases, fetches them, offers the links that it finds, and
// reports. The comments of protos/toehold/frontier/v1/*.proto are the manual of all that is called here.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "toehold/frontier/v1"
)

// ---- the exchange with the frontier ----

// Fetcher is one session of a node. It takes a lease only for a free toe, so all that it holds are started.
type Fetcher struct {
	frontier             pb.FrontierServiceClient
	crawl, node, session string
	mu                   sync.Mutex
	changed              *sync.Cond // a lease has ended, the pool has another size, or the fetcher ends
	toes                 int
	leaseLife            time.Duration              // of a lease that no heartbeat names
	held                 map[string]held            // by token
	policies             map[string]*pb.FetchPolicy // by id
	ending               bool
}

// held is a lease: `end` says that it has ended, `interrupt` that its fetch should.
type held struct{ end, interrupt context.CancelFunc }

func main() {
	address := flag.String("frontier", "127.0.0.1:7707", "`HOST:PORT` of the frontier")
	crawl := flag.String("crawl", "", "fetch for this crawl only")
	node := flag.String("name", fmt.Sprintf("go-%d", os.Getpid()), "name of this node")
	toes := flag.Int("toes", 10, "most fetches at once")
	flag.Parse()
	if *toes < 1 {
		log.Fatalf("-toes must be 1 or more, got %d", *toes)
	}

	// The frontier allows a ping every five seconds.
	connection, err := grpc.NewClient("passthrough:///"+*address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{ // gRPC's own longest wait is two minutes
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(9<<20))) // gRPC's own limit is 4 MiB
	if err != nil {
		log.Fatal(err)
	}
	f := &Fetcher{
		frontier: pb.NewFrontierServiceClient(connection), crawl: *crawl, node: *node, session: rand.Text(),
		toes: *toes, leaseLife: 3 * time.Second,
		held: map[string]held{}, policies: map[string]*pb.FetchPolicy{},
	}
	f.changed = sync.NewCond(&f.mu)
	running, end := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(running, func() {
		end() // the next signal kills
		f.update(func() { f.ending = true })
	})
	beating, stopBeating := context.WithCancel(context.Background())
	go f.beat(beating, *toes, end)
	refused := f.feed(running)
	end()
	f.wait(func() bool { return len(f.held) == 0 }) // finish what is started
	stopBeating()
	goodbye, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	f.frontier.Heartbeat(goodbye, &pb.HeartbeatRequest{Node: f.node, Session: f.session, Leaving: true})
	if refused != nil {
		log.Fatalf("the frontier gives no leases: %v", refused)
	}
}

// feed asks for leases until `running` ends, or the frontier refuses.
func (f *Fetcher) feed(running context.Context) error {
	for running.Err() == nil {
		request := &pb.NextRequest{Crawl: f.crawl, Node: f.node, Session: f.session}
		var leaseLife time.Duration
		f.wait(func() bool { return f.ending || len(f.held) < f.toes })
		f.update(func() {
			leaseLife = f.leaseLife
			request.MaxLeases = int32(min(max(f.toes-len(f.held), 1), 1000))
			request.WaitDuration = durationpb.New(min(20*time.Second, leaseLife/3))
			for id := range f.policies {
				request.KnownFetchPolicyIds = append(request.KnownFetchPolicyIds, id)
			}
		})
		var asked time.Time
		next := func(c context.Context, r *pb.NextRequest, o ...grpc.CallOption) (*pb.NextResponse, error) {
			asked = time.Now()
			return f.frontier.Next(c, r, o...)
		}
		answer, err := call(running, 30*time.Second, next, request)
		if running.Err() != nil {
			break // leases that were on their way go back with the last heartbeat
		}
		if err != nil {
			return err
		}
		for _, policy := range answer.FetchPolicies {
			f.update(func() { f.policies[policy.FetchPolicyId] = policy })
		}
		for _, lease := range answer.Leases {
			if time.Since(asked) > leaseLife*2/3 {
				break // this process stood still: they lapse before a heartbeat names them
			}
			leased, end := context.WithCancel(context.Background())
			fetching, interrupt := context.WithCancel(leased)
			f.update(func() { f.held[string(lease.Token)] = held{end, interrupt} })
			go f.toe(leased, fetching, lease, f.policies[lease.FetchPolicyId])
		}
		if len(answer.Leases) == 0 {
			sleep(running, answer.RetryDuration.AsDuration())
		}
	}
	return nil
}

// toe takes one lease through its life. It offers the links before it reports: if this process dies between
// the two, the page is fetched again, and no link is lost.
func (f *Fetcher) toe(leased, fetching context.Context, lease *pb.Lease, policy *pb.FetchPolicy) {
	defer f.update(func() { delete(f.held, string(lease.Token)) })
	report, links := fetch(fetching, lease, policy)
	if err := f.offer(leased, lease, links); err != nil {
		log.Printf("%s: the frontier refuses its links: %v", lease.Uri, err)
		report = newReport(lease, -5)
	}
	if leased.Err() != nil {
		return
	}
	err := f.finish(report)
	var invalid invalidReport
	if errors.As(err, &invalid) {
		log.Printf("%s: the frontier refuses the report: %v", lease.Uri, err)
		err = f.finish(newReport(lease, -5))
	}
	if err != nil {
		log.Printf("%s: not reported, so the lease lapses: %v", lease.Uri, err)
	}
}

// offer returns an error if the frontier refuses links, but not if their crawl is over: then links have no
// place any more.
func (f *Fetcher) offer(leased context.Context, lease *pb.Lease, links []*pb.Candidate) error {
	for _, batch := range batches(links) {
		request := &pb.ScheduleRequest{Crawl: lease.Crawl, Candidates: batch}
		_, err := call(leased, 30*time.Second, f.frontier.Schedule, request)
		if reason, _ := details(err); slices.Contains(crawlIsOver, reason) || leased.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var crawlIsOver = []string{"CRAWL_FINISHED", "CRAWL_TORN_DOWN", "UNKNOWN_CRAWL"}

// invalidReport says why a report cannot be right.
type invalidReport string

func (problem invalidReport) Error() string { return string(problem) }

// finish reports until that is acknowledged, even if a heartbeat says meanwhile that the lease has ended: this
// very report may have ended it.
func (f *Fetcher) finish(report *pb.Report) error {
	request := &pb.FinishedRequest{Node: f.node, Session: f.session, Reports: []*pb.Report{report}}
	answer, err := call(context.Background(), 30*time.Second, f.frontier.Finished, request)
	if err == nil && answer.Results[0].Disposition == pb.Disposition_DISPOSITION_INVALID_REPORT {
		return invalidReport(answer.Results[0].Problem)
	}
	return err
}

// batches keeps each Schedule within 1000 candidates and 8 MiB.
func batches(candidates []*pb.Candidate) (found [][]*pb.Candidate) {
	size := 0
	for _, candidate := range candidates {
		size += proto.Size(candidate)
		if last := len(found) - 1; last >= 0 && size < 4<<20 && len(found[last]) < 1000 {
			found[last] = append(found[last], candidate)
		} else {
			found, size = append(found, []*pb.Candidate{candidate}), proto.Size(candidate)
		}
	}
	return found
}

// beat names the leases that are held, and obeys the answer.
func (f *Fetcher) beat(beating context.Context, toes int, end func()) {
	for beating.Err() == nil {
		request := &pb.HeartbeatRequest{Node: f.node, Session: f.session}
		f.update(func() {
			for token := range f.held {
				request.Tokens = append(request.Tokens, []byte(token))
			}
			request.ToeSteps = []*pb.ToeStepCount{{Step: "FETCHING", Count: int32(len(f.held))}}
		})
		answer, err := call(beating, 5*time.Second, f.frontier.Heartbeat, request)
		if beating.Err() != nil {
			return
		}
		if err != nil {
			log.Fatalf("the frontier refuses heartbeats: %v", err)
		}
		f.update(func() {
			for token, lease := range f.held {
				is := func(other []byte) bool { return string(other) == token }
				if slices.ContainsFunc(answer.EndedTokens, is) {
					lease.end()
					delete(f.held, token)
				} else if slices.ContainsFunc(answer.InterruptTokens, is) {
					lease.interrupt()
				}
			}
			f.toes, f.leaseLife = toes, answer.LeaseDuration.AsDuration()
			if answer.PoolSize != nil {
				f.toes = int(*answer.PoolSize)
			}
		})
		if answer.Drain {
			end()
		}
		sleep(beating, answer.IntervalDuration.AsDuration())
	}
}

// maxFailures is how often a call may fail in a way that has no name before that counts as a refusal.
const maxFailures = 5

const firstPause = 200 * time.Millisecond

// call makes one call until the frontier answers or refuses. An error without Toehold's ErrorInfo is the
// transport's. All calls may be repeated; the pauses grow up to `timeout`.
func call[Request, Answer any](ctx context.Context, timeout time.Duration,
	rpc func(context.Context, Request, ...grpc.CallOption) (Answer, error), request Request) (Answer, error) {
	failures := 0
	for pause := firstPause; ; pause = min(2*pause, timeout) {
		limited, cancel := context.WithTimeout(ctx, timeout)
		answer, err := rpc(limited, request)
		cancel()
		if err == nil {
			return answer, nil
		}
		reason, asked := details(err)
		code := status.Code(err)
		switch {
		case reason == "SESSION_SUPERSEDED":
			log.Fatal(err) // another process has this node's name, and all that this one held
		case code == codes.Unavailable, code == codes.DeadlineExceeded:
		case code == codes.ResourceExhausted && reason != "": // without one a message is too large for gRPC
		case reason != "", code == codes.ResourceExhausted, code == codes.Unimplemented:
			return answer, err
		default:
			if failures++; failures == maxFailures {
				return answer, err
			}
		}
		if pause == firstPause && ctx.Err() == nil {
			log.Printf("%v; trying again", err)
		}
		if !sleep(ctx, max(asked, time.Duration((0.5+mathrand.Float64()/2)*float64(pause)))) {
			return answer, err
		}
	}
}

// details returns the reason of Toehold's ErrorInfo, if the error has one, and the pause that it asks for.
func details(err error) (reason string, pause time.Duration) {
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == "toehold" {
				reason = detail.Reason
			}
		case *errdetails.RetryInfo:
			pause = detail.RetryDelay.AsDuration()
		}
	}
	return reason, pause
}

func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

func (f *Fetcher) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Broadcast()
}

func (f *Fetcher) wait(until func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !until() {
		f.changed.Wait()
	}
}

// ---- one fetch ----

const (
	maxRobotsBytes     = 500 << 10
	maxRobotsRedirects = 5
	maxPageBytes       = 10 << 20
)

func newReport(lease *pb.Lease, fetchStatus int32) *pb.Report {
	return &pb.Report{Token: lease.Token, Outcome: pb.Outcome_OUTCOME_FETCHED, FetchStatus: fetchStatus}
}

// fetch returns the report of a lease, and the links found.
func fetch(fetching context.Context, lease *pb.Lease, policy *pb.FetchPolicy) (*pb.Report, []*pb.Candidate) {
	isRobots := lease.Purpose == pb.Purpose_PURPOSE_ROBOTS
	began := time.Now()
	report := newReport(lease, 0)
	if policy.Proxy != "" { // a direct request is not what the crawl's operator wants
		report = newReport(lease, -5)
		report.Annotations = []string{"noProxies"}
		return report, nil
	}
	limited, cancel := context.WithTimeout(fetching, policy.Timeout.AsDuration())
	defer cancel()
	body, answer := get(limited, lease.Uri, lease, policy, report)
	for redirects := 0; isRobots && report.FetchStatus/100 == 3; redirects++ {
		location := answer.Header.Get("Location")
		next, err := answer.Request.URL.Parse(location)
		if redirects == maxRobotsRedirects || location == "" || err != nil {
			report.FetchStatus = -404
		} else { // nothing of the redirect itself stays in the report but its host's address
			report = &pb.Report{Token: lease.Token, Outcome: report.Outcome, PeerAddress: report.PeerAddress}
			body, answer = get(limited, next.String(), lease, policy, report)
		}
	}
	if fetching.Err() != nil {
		report = newReport(lease, -7000)
	}
	report.StartTime, report.FetchDuration = timestamppb.New(began), durationpb.New(time.Since(began))
	switch {
	case report.FetchStatus/100 == 2 && isRobots:
		readRobots(report, answer, body)
	case report.FetchStatus/100 == 3 && answer.Header.Get("Location") != "":
		target := candidate(lease, answer.Header.Get("Location"), lease.Uri, "R")
		target.Redirects = lease.Redirects
		return report, []*pb.Candidate{target}
	case report.FetchStatus > 0 && !isRobots:
		return report, links(lease, policy, answer.Header, body)
	}
	return report, nil
}

// get makes one request. It fills in the report, and returns the body and the answer (nil without one).
func get(ctx context.Context, uri string, lease *pb.Lease, policy *pb.FetchPolicy,
	report *pb.Report) ([]byte, *http.Response) {
	isRobots := lease.Purpose == pb.Purpose_PURPOSE_ROBOTS
	wire := &wire{patience: policy.ReadTimeout.AsDuration()}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { wire.ready = true }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), "GET", uri, nil)
	if err != nil {
		report.FetchStatus = -7
		return nil, nil
	}
	request.Header.Set("User-Agent", policy.UserAgent)
	request.Header.Set("Accept-Encoding", "identity")
	if lease.Etag != "" {
		request.Header.Set("If-None-Match", lease.Etag)
	}
	if lease.LastModified != "" {
		request.Header.Set("If-Modified-Since", lease.LastModified)
	}
	answer, err := newClient(policy, wire).Do(request)
	if wire.ready && report.PeerAddress == "" {
		report.PeerAddress, _, _ = net.SplitHostPort(wire.RemoteAddr().String())
	}
	if err != nil {
		report.FetchStatus = fetchStatus(ctx, err, wire)
		return nil, nil
	}
	defer answer.Body.Close()
	report.FetchStatus = int32(answer.StatusCode)
	mediaType, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	report.MediaType = text(strings.ToLower(strings.TrimSpace(mediaType)), 256)
	report.Etag = text(answer.Header.Get("ETag"), 1024)
	report.LastModified = text(answer.Header.Get("Last-Modified"), 1024)
	report.RetryAfterDuration = retryAfter(answer.Header.Get("Retry-After"))
	if answer.StatusCode == http.StatusNotModified {
		report.Digest, report.Etag, report.LastModified = lease.LastDigest, "", ""
		return nil, answer
	}
	if !isRobots && !wanted(policy, report.MediaType, answer.ContentLength) {
		report.Truncation, report.Etag, report.LastModified = pb.Truncation_TRUNCATION_FILTER, "", ""
		return nil, answer
	}

	keep, limit := 0, policy.MaxBytes
	if isRobots {
		keep, limit = maxRobotsBytes, maxRobotsBytes
	} else if report.MediaType == "text/html" || report.MediaType == "application/xhtml+xml" {
		keep = maxPageBytes // links are looked for in it
	}
	digest, body, buffer, began := sha1.New(), []byte(nil), make([]byte, 32<<10), time.Now()
	for err == nil {
		var n int
		n, err = answer.Body.Read(buffer)
		if rest := limit - report.BodyBytes; int64(n) > rest {
			n, report.Truncation, err = int(rest), pb.Truncation_TRUNCATION_LENGTH, io.EOF
		}
		report.BodyBytes += int64(n)
		digest.Write(buffer[:n])
		body = append(body, buffer[:min(n, max(0, keep-len(body)))]...)
		if policy.MaxBytesPerSecond > 0 {
			dueSeconds := float64(report.BodyBytes) / float64(policy.MaxBytesPerSecond)
			sleep(ctx, time.Duration(dueSeconds*float64(time.Second))-time.Since(began))
		}
	}
	if err != io.EOF {
		switch code := fetchStatus(ctx, err, wire); {
		case code == -4: // the deadline, or silence
			report.Truncation = pb.Truncation_TRUNCATION_TIME
		case code == -10 && report.BodyBytes == 0: // no valid chunk
			report.FetchStatus = code
			return nil, nil
		default:
			report.Truncation = pb.Truncation_TRUNCATION_DISCONNECT
		}
		report.Etag, report.LastModified = "", "" // the next visit must get the rest
	}
	report.Digest = "sha1:" + base32.StdEncoding.EncodeToString(digest.Sum(nil))
	return body, answer
}

// fetchStatus is the frontier's code for an error. How the connection ended says more than net/http's error.
func fetchStatus(ctx context.Context, err error, wire *wire) int32 {
	var noName *net.DNSError
	switch {
	case errors.Is(err, errRefused):
		return -7
	case errors.As(err, &noName):
		return -1
	case !wire.ready: // no connection, or no TLS over it
		return -2
	case ctx.Err() != nil, errors.Is(wire.err, os.ErrDeadlineExceeded):
		return -4
	case wire.err != nil:
		return -3
	default: // net/http could not read the answer
		return -10
	}
}

// readRobots takes a robots.txt into its report. One that broke off is not there: it must not allow too much.
func readRobots(report *pb.Report, answer *http.Response, body []byte) {
	switch report.Truncation {
	case pb.Truncation_TRUNCATION_TIME:
		report.FetchStatus = -4
	case pb.Truncation_TRUNCATION_DISCONNECT:
		report.FetchStatus = -3
	default:
		decoded, err := decode(answer.Header, body, maxRobotsBytes)
		if err != nil {
			report.FetchStatus = -10
		}
		report.RobotsBody = decoded
		report.RobotsEmpty = err == nil && len(decoded) == 0
	}
}

// decode undoes gzip, which some servers send unasked. A gzip that was cut is decoded as far as it goes.
func decode(header http.Header, body []byte, limit int64) ([]byte, error) {
	switch strings.ToLower(header.Get("Content-Encoding")) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		reader, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		decoded, err := io.ReadAll(io.LimitReader(reader, limit))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		return decoded, err
	default:
		return nil, errors.New("unknown Content-Encoding")
	}
}

func wanted(policy *pb.FetchPolicy, mediaType string, length int64) bool {
	if length == 0 {
		return true
	}
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	matches := func(pattern string) bool {
		matched, _ := path.Match(pattern, mediaType)
		return matched
	}
	return !slices.ContainsFunc(policy.RejectMediaTypes, matches) &&
		(len(policy.AcceptMediaTypes) == 0 || slices.ContainsFunc(policy.AcceptMediaTypes, matches)) &&
		(policy.MaxContentLength == 0 || length <= policy.MaxContentLength)
}

func retryAfter(header string) *durationpb.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return durationpb.New(time.Duration(seconds) * time.Second)
	}
	if date, err := http.ParseTime(header); err == nil {
		return durationpb.New(max(0, time.Until(date)))
	}
	return nil
}

// text makes a header fit for a message, whose strings must be UTF-8: other bytes are Latin-1. A value that is
// too long is dropped.
func text(value string, limit int) string {
	if !utf8.ValidString(value) {
		runes := make([]rune, len(value))
		for i := range runes {
			runes[i] = rune(value[i])
		}
		value = string(runes)
	}
	if len(value) > limit {
		return ""
	}
	return value
}

// ---- links ----

func candidate(lease *pb.Lease, uri, base, hop string) *pb.Candidate {
	return &pb.Candidate{
		Uri: text(uri, 8192), Base: text(base, 8192),
		Via: lease.Uri, Path: lease.Path + hop, Source: lease.Source,
	}
}

// links finds the links of a page. The frontier resolves and judges them.
func links(lease *pb.Lease, policy *pb.FetchPolicy, header http.Header, body []byte) (found []*pb.Candidate) {
	body, err := decode(header, body, maxPageBytes)
	if err != nil || len(body) == 0 {
		return nil
	}
	decoded, err := charset.NewReader(bytes.NewReader(body), header.Get("Content-Type"))
	if err != nil {
		return nil
	}
	forbids := func(rules string) bool {
		return policy.Extract.GetObeyRobotsMeta() && nofollowRule.MatchString(rules)
	}
	nofollow, base, seen := forbids(header.Get("X-Robots-Tag")), "", map[string]bool{}
	add := func(uri, hop string) {
		uri, _, _ = strings.Cut(strings.TrimSpace(uri), "#")
		if !seen[uri] && len(seen) < int(policy.Extract.GetMaxLinks()) {
			seen[uri] = true
			found = append(found, candidate(lease, uri, "", hop))
		}
	}
	for page := html.NewTokenizer(decoded); page.Next() != html.ErrorToken; {
		token := page.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		attributes := map[string]string{}
		for _, attribute := range slices.Backward(token.Attr) { // the first of a name counts
			attributes[attribute.Key] = attribute.Val
		}
		href, isLink := attributes["href"]
		rel := strings.Fields(strings.ToLower(attributes["rel"]))
		switch token.Data {
		case "base":
			if here, err := url.Parse(lease.Uri); err == nil && base == "" && isLink {
				if resolved, err := here.Parse(href); err == nil {
					base = resolved.String()
				}
			}
		case "meta":
			name := attributes["name"]
			if strings.EqualFold(name, "robots") || strings.EqualFold(name, policy.ProductToken) {
				nofollow = nofollow || forbids(attributes["content"])
			}
		case "a", "area":
			if isLink && !(policy.Extract.GetObeyNofollow() && slices.Contains(rel, "nofollow")) {
				add(href, "L")
			}
		case "link":
			if isLink && (slices.Contains(rel, "stylesheet") || slices.Contains(rel, "icon")) {
				add(href, "E")
			} else if isLink {
				add(href, "L")
			}
		case "img", "script", "iframe", "frame", "embed", "source", "audio", "video":
			if src, ok := attributes["src"]; ok {
				add(src, "E")
			}
			for each := range strings.SplitSeq(attributes["srcset"], ",") {
				if words := strings.Fields(each); len(words) > 0 {
					add(words[0], "E")
				}
			}
		}
	}
	for _, each := range found {
		each.Base = cmp.Or(base, lease.Uri) // also of links before the <base>
	}
	return slices.DeleteFunc(found, func(each *pb.Candidate) bool {
		return nofollow && strings.HasSuffix(each.Path, "L")
	})
}

var nofollowRule = regexp.MustCompile(`(?i)\b(nofollow|none)\b`)

// ---- connections ----

var errRefused = errors.New("the crawl does not allow this address")

// wire is the connection of one request. It bounds the wait for the next bytes, and keeps the error that
// ended it.
type wire struct {
	net.Conn
	patience time.Duration
	ready    bool // the request can be sent
	err      error
}

func (w *wire) Read(buffer []byte) (int, error) {
	w.SetReadDeadline(time.Now().Add(w.patience))
	n, err := w.Conn.Read(buffer)
	if err != nil {
		w.err = err
	}
	return n, err
}

// newClient makes the HTTP client of one request. It follows no redirect and uses no connection twice (net/http
// would repeat the request, unseen, if the server had closed it). It checks the address that it connects to.
func newClient(policy *pb.FetchPolicy, wire *wire) *http.Client {
	patience := policy.ConnectTimeout.AsDuration()
	check := func(_, address string, _ syscall.RawConn) error {
		peer, err := netip.ParseAddrPort(address)
		if err != nil || !allowed(policy.AllowedAddresses, peer.Addr().Unmap()) {
			return errRefused
		}
		return nil
	}
	dialer := net.Dialer{Timeout: patience, Control: check}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, TLSHandshakeTimeout: patience,
			DialContext: func(ctx context.Context, network, address string) (_ net.Conn, err error) {
				if wire.Conn, err = dialer.DialContext(ctx, network, address); err != nil {
					return nil, err
				}
				return wire, nil
			},
		},
	}
}

// notPublic are networks that no page of the public web lies in, beyond those that netip knows.
var notPublic = networks("0.0.0.0/8 100.64.0.0/10 168.63.129.16/32 192.0.0.0/24 192.0.2.0/24 " +
	"192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 " +
	"2001::/23 2001:db8::/32 2002::/16 3ffe::/16 3fff::/20")

var global6 = netip.MustParsePrefix("2000::/3")

func networks(list string) (found []netip.Prefix) {
	for _, each := range strings.Fields(list) {
		found = append(found, netip.MustParsePrefix(each))
	}
	return found
}

func allowed(rules []string, address netip.Addr) bool {
	contains := func(network netip.Prefix) bool { return network.Contains(address) }
	return slices.ContainsFunc(rules, func(rule string) bool {
		switch rule {
		case "loopback":
			return address.IsLoopback()
		case "public":
			return address.IsGlobalUnicast() && !address.IsPrivate() &&
				(address.Is4() || contains(global6)) && !slices.ContainsFunc(notPublic, contains)
		}
		if network, err := netip.ParsePrefix(rule); err == nil {
			return contains(network)
		}
		one, err := netip.ParseAddr(rule)
		return err == nil && one == address
	})
}
