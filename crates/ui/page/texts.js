// All English of the page. `{name}` stands for what is filled in.
const TEXTS = {
  brand: 'Placewright', skip: 'To the content', pages: 'Pages',
  overview: 'Overview', fleet: 'Fleet', why: 'Why', capacity: 'Capacity', builds: 'Builds', cells: 'Cells and roles', servers: 'My servers', host: 'Host {name}',
  signOut: 'Sign out', signIn: 'Sign in', name: 'Name', password: 'Password', project: 'Project', token: 'Token',
  signInIdentity: 'With a user of this installation. The first start wrote one into clouds.yaml.',
  signInKeystone: 'Users of this installation are in a Keystone, which this page does not reach. Paste a token of a project: openstack token issue -f value -c id',
  signInBasic: 'With a name and a password of this installation.',
  signInNoauth: 'This installation believes what callers say of themselves (noauth2). “admin” may do everything.',
  signInChoose: 'You are in several projects.', signInNowhere: 'You have no role in any project.', expired: 'The token is not valid any more. Sign in again.',
  signInWrong: 'The name or the password is wrong.', tokenKept: 'The token is kept in the memory of this tab only.',
  stateLive: 'live', stateConnecting: 'connecting', stateBroken: 'no connection, trying again',
  hosts: 'Hosts', hostsUp: 'up', instances: 'Consumers', failing: 'Not up', commands: 'Commands a second', claims: 'API claims a second', refusals: 'Refusals a second',
  nothing: 'There is nothing here.', loading: 'Loading …', failed: 'This cannot be shown: {why}', noConnection: 'The service does not answer.',
  isAnythingWrong: 'Is anything wrong?', allWell: 'Nothing is known to be wrong.', howFull: 'How full', howFullNote: 'Used of what may be claimed; the mark is what physically exists.',
  class: 'Resource class', used: 'Used', capacityCol: 'Capacity', physical: 'Physical', share: 'Share', overcommit: 'Overcommit', free: 'Free', total: 'Total', reserved: 'Reserved', provider: 'Provider',
  fullest: 'Fullest groups', fullestBy: 'Fullest by {class}', group: 'Group', groupBy: 'Group by', colourBy: 'Colour by', condition: 'Condition', age: 'Age of report', count: 'Number of consumers',
  all: 'all', none: 'nothing', cell: 'Cell', zone: 'Zone', aggregate: 'Aggregate', trait: 'Trait', search: 'Name or UUID', noGroup: 'in no {level}', noCell: 'without a cell', noZone: 'without a zone', together: 'all hosts',
  shown: '{shown} of {all} hosts', table: 'As a table', hostName: 'Host', node: 'Node', state: 'State', consumers: 'Consumers', more: '{number} more: narrow the filter.',
  condition0: 'up', condition1: 'disabled', condition2: 'down', condition3: 'forced down', condition4: 'no report',
  age0: 'under 15 s', age1: 'under a minute', age2: 'under 5 minutes', age3: 'under an hour', age4: 'an hour or more',
  mapHelp: 'Picture of all hosts. Arrow keys choose a host, Enter opens it, plus and minus zoom, 0 shows everything.', mapAt: '{host}, {group}: {value}', zoomIn: 'Zoom in', zoomOut: 'Zoom out', zoomAll: 'Show everything', close: 'Close',
  open: 'Open', openHost: 'Its page', providers: 'Providers', traits: 'Traits', aggregates: 'Aggregates', reportAge: 'Last report', seconds: '{number} s', sinceDown: 'Why disabled', instancesHere: 'Servers here', load: 'Load',
  server: 'Server', status: 'Status', task: 'Task', created: 'Created', flavor: 'Flavor', image: 'Image', reason: 'Reason', noHost: 'no host',
  attempts: 'What was done', action: 'Action', begun: 'Begun', ended: 'Ended', result: 'Result', took: 'Took', underWay: 'under way', step: 'Step', details: 'Details',
  buildsUnder: 'Under way', buildsFailed: 'In error', moves: 'Moves', from: 'From', to: 'To', kind: 'Kind', noBuilds: 'Nothing is being built.', noFailed: 'No server is in error.', noMoves: 'No moves.',
  whyServer: 'A server', whyServerLabel: 'Name or UUID of a server', ask: 'Ask', whyForm: 'Where would this go, and how many more fit?', vcpus: 'vCPUs', ram: 'Memory (MiB)', disk: 'Disk (GiB)', zoneWanted: 'Zone (any if empty)', extra: 'Extra specs (key=value, with spaces between)', ownSize: 'a size of your own',
  compareWith: 'Compare with hosts or groups, a rack for example (names, with commas between)', wouldGo: 'It would go to {host}.', fitsMore: '{count} more fit.', fitsAtLeast: 'At least {count} more fit.', noneFits: 'None fits.', nothingDone: 'Nothing was claimed.',
  ranking: 'The best hosts', score: 'Score', rank: 'Rank', compared: '{number} hosts were compared.', weigher: 'Weigher', parts: 'Parts of the score', funnel: 'What each constraint left', constraint: 'Constraint', removed: 'Removed', left: 'Left', excluded: 'Excluded', by: 'By',
  serverIsOn: 'It is on {host}.', serverNowhere: 'It is on no host.', asItIsNow: 'This is the decision as it would be made now, for another server of the same size. What was against a host when the server was placed may be over.', rankingNow: 'The best hosts now', asDecided: 'As it was decided', builtOn: 'Built on {host}, {at}.', movedTo: 'Moved to {host}, {at}.', notThere: 'It is not there any more.', knownHosts: '{number} hosts were known (after entry {sequence} of the journal).', feasibleThen: '{number} of them could take it.', feasibleAtLeast: 'At least {number} of them could take it: the search looked for the best ones only.', alternatesThen: 'Alternates: {number}.', nextBest: 'The best hosts then', tookFirst: 'Taken by others first', otherServers: 'other servers of the request', lostEarlier: 'Lost in earlier searches', notKept: 'How hosts were ranked was not kept.', noDecision: 'It was not kept why it is there.', equalHosts: 'One host could take it, or all were equal.', equalScores: 'Of hosts with equal scores none is better; which of them comes first has no meaning.', unknownHost: 'No host and no group has this name.',
  groupsAsk: 'Why not another {level}?', groupsThen: 'Each {level} when this was decided (after entry {sequence} of the journal)', groupsNow: 'Each {level} as it is now', groupsNoThen: 'The hosts of then cannot be shown, so these are those of now: {why}', couldTake: 'Could take it', bestRank: 'Best rank', whyNot: 'Why not', hostsWith: '{number}: {what}', allHostsWith: 'all {number}: {what}', rankedLower: '{number}: other hosts ranked better, or were equal', wasChosen: 'It was chosen.', lacksRoom: 'no room for {class}', lacksTrait: 'without the trait {trait}', hasTrait: 'with the trait {trait}', hadRoom: 'could take it', moreGroups: '{number} more: name one in the field “Compare with”.', groupsNote: 'A host could take it if it was not disabled, and had the room and the traits for the flavor. Zones, policies and rules of groups are not looked at here.', byCell: 'By cell', severalFound: 'Several servers have that name:', noServer: 'There is no such server.',
  headroom: 'How many more of each flavor', countedAt: 'Counted at {time}.', fits: 'Fit', binds: 'What binds', noFlavors: 'There are no flavors.', byGroup: 'Free by group', spread: 'Where the free room lies', largestFree: 'Largest free on one host', usable: 'Hosts with room', fragmentation: 'Fragmentation',
  history: 'Used over the last minutes', historyNote: 'As this page has seen it since it was opened. Longer times are in Prometheus.', full: 'At this rate it is full in {time}.', notFilling: 'It is not filling.', minutes: '{number} minutes', hours: '{number} hours', days: '{number} days', fitsCounting: 'counting …',
  yours: 'What is left for your project', limit: 'Limit', left2: 'Left', unlimited: 'no limit', noServers: 'Your project has no servers.', limits: 'Quota',
  role: 'Role', release: 'Release', applied: 'Applied entry', lag: 'Lag', leader: 'Leader', store: 'Store', role_alone: 'alone', role_leads: 'leads', role_follows: 'follows', role_stopped: 'stopped', thisProcess: 'This process', journal: 'Journal', services: 'Compute services', updated: 'Last report',
  findings: 'What does not add up', noFindings: 'Everything adds up.', audit: 'Audit now', repair: 'Repair all of them', repairNote: 'Repairs what the list says, as {user}; the audit log has who did it.', repaired: '{number} repaired.', repairSure: 'Yes, repair', cancel: 'Cancel', finding: 'Finding', what: 'What', wouldDo: 'What a repair does', outcome: 'Outcome', noConductor: 'There is no conductor here.',
  cellsTitle: 'Cells', metric: 'Metric', value: 'Value', wrongDown: 'Hosts that are down: {number}', wrongDisabled: 'Hosts that are disabled: {number}', wrongError: 'Servers in error: {number}', wrongFindings: 'Findings of the last audit: {number}', recent: 'Being built and in error', nearMisses: 'The nearest misses', lacks: 'What is missing', example: 'For example', durations: 'Durations since the start', meanCol: 'Mean', counted: 'Counted', wrongFull: '{class} is {share} full', building: 'Being built', inError: 'In error',
  time: 'Time', timeWhen: 'When', timeEntry: 'Entry of the journal', timeNumber: 'Number of the entry', timeHeld: 'Held: entry {oldest} ({from}) to entry {newest} ({to}).', timeNoTime: 'time not known', timeThen: 'The fleet after entry {sequence}: {at}.', timeNewest: 'To the newest entry', timeAgain: '{why}; trying again …', timeNote: 'What agents report is not in the journal: of the condition of a host only what operators had set is shown. Names of aggregates and levels of the topology are those of now.', timeWhy: 'Why a server was where it was', timeServer: 'UUID of a server, or its name if it still exists', timeAnswer: 'Server {server} after entry {sequence}', timeSums: 'All hosts, then and now', usedThen: 'Used then', usedNow: 'Used now', capacityThen: 'Capacity then', capacityNow: 'Capacity now', timeHosts: '{number} hosts', waitingThen: 'It waited for a host.', onThen: 'It was on {host}.', nowhereThen: 'It was on no host.',
  trace: 'Trace', traceBegin: 'Begin a replay', traceServed: 'A replay drives an installation with a trace of machines and tasks, and its own program shows how far it is and how the hosts fill up. Start it with --page, and open the address that it prints:',
  traceWaiting: 'The replay waits for the hosts, or makes flavors.', traceRunning: 'The replay is running.', traceEnded: 'The replay has ended: every task was placed, or refused with a reason.', traceOtherwise: 'The replay has ended: tasks that were neither placed nor refused with a reason: {number}. The terminal names them.', traceStopped: 'The replay was stopped before its end.', traceGone: '{why} The program of the replay may have ended.',
  traceProgress: 'How far the replay is', traceRequested: 'Requested', traceOf: 'of {number} tasks', tracePlaced: 'Placed', traceRefused: 'Refused', traceLost: 'Neither', traceDeleted: 'Deleted later', traceElapsed: 'Since the start', traceInTrace: '{time} of the trace', traceRate: 'Tasks decided a second',
  traceWhat: 'What is replayed', traceTasksFile: 'Tasks from', traceNodesFile: 'Hosts from', traceTasks: 'Tasks', traceSpeed: 'Speed', traceTimes: '{number} times that of the trace', traceAtOnce: 'as fast as servers are accepted', traceDone: 'Decided',
  traceFill: 'How the hosts fill up', traceCounts: 'Tasks over time', traceAfter: 'After', traceAllocated: 'Allocated', traceAtEnd: 'At the end', traceHighest: 'Highest', traceReasons: 'Why tasks were refused', traceNoReasons: 'No task was refused.', traceOthers: 'other reasons',
  traceDecisions: 'Decisions a second', traceBoots: 'Boots a second', traceLatency: 'Request to ACTIVE', traceLatencies: '{p50} p50, {p99} p99, {max} at most', traceRetries: 'Builds tried again', traceOfServers: '{number}, of {servers} servers',
  notAllowed: 'Your role may not see this.', unknownPage: 'There is no such page.',
};

export function t(key, values = {}) {
  const text = TEXTS[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

export const whole = (number) => WHOLE.format(number + 0);
export const fine = (number) => FINE.format(Math.round(number * 100) / 100 + 0);
export const percent = (share) => (Number.isFinite(share) ? `${FINE.format(Math.round(share * 1000) / 10)} %` : '–');

// An amount of a class with its unit.
export function amount(name, number) {
  if (name === 'MEMORY_MB') return number >= 1048576 ? `${fine(number / 1048576)} TiB` : number >= 1024 ? `${fine(number / 1024)} GiB` : `${whole(number)} MiB`;
  if (name === 'DISK_GB') return number >= 1024 ? `${fine(number / 1024)} TiB` : `${whole(number)} GiB`;
  return whole(number);
}

export function time(text) {
  const date = new Date(/[zZ]|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}Z`);
  return Number.isNaN(date.getTime()) ? String(text ?? '') : date.toLocaleString('en-GB', { hour12: false });
}

export function duration(ms) {
  if (!Number.isFinite(ms)) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120000) return `${fine(ms / 1000)} s`;
  return ms < 7200000 ? t('minutes', { number: Math.round(ms / 60000) }) : ms < 172800000 ? t('hours', { number: Math.round(ms / 3600000) }) : t('days', { number: Math.round(ms / 86400000) });
}
