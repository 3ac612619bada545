# SPDX-License-Identifier: Apache-2.0
"""Draws recoveries as SVG: a lane for each, from the failure to the first step of all workers afterwards."""
import html

# What a part is called, its colour, and at which moment it ends; the first one begins with the failure.
PARTS = [('detect', '#d9534f', 'noticed_ms'), ('end', '#e8a33d', 'ended_ms'), ('launch', '#4a90d9', 'begun_ms'),
         ('load', '#8e6bbf', 'loaded_ms'), ('first step', '#4caf50', 'step_ms')]
LEFT, WIDTH, BAR, LANE, TOP = 24, 760, 22, 84, 74
STYLE = '''
  .paper { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, sans-serif } .title { font-size: 16px; font-weight: 600 }
  .case { font-weight: 600 } .quiet { fill: #59636e; font-size: 12px } .bed { fill: #eceff2 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .quiet { fill: #9198a1 } .bed { fill: #21262d }
  }'''


def milliseconds(value):
    return f'{value:.2f}' if value < 1 else f'{value:.1f}' if value < 100 else f'{value:.0f}'


def text(x, y, words, kind='', anchor='start'):
    return f'<text x="{x:.1f}" y="{y}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def lane(case, moments, top):
    """Its moments in ms since the failure. A lane has a scale of its own, since they differ by a factor of 1000."""
    total = moments['step_ms']
    drawn = [text(LEFT, top, case, 'case'), text(LEFT + WIDTH, top, f'{milliseconds(total)} ms', 'case', 'end'),
             f'<rect class="bed" x="{LEFT}" y="{top + 8}" width="{WIDTH}" height="{BAR}"/>']
    begin, x = 0.0, LEFT
    for name, colour, moment in PARTS:
        duration = max(moments[moment] - begin, 0)
        drawn.append(f'<rect fill="{colour}" x="{LEFT + WIDTH * begin / total:.1f}" y="{top + 8}" '
                     f'width="{max(WIDTH * duration / total, 1):.1f}" height="{BAR}"/>')
        drawn.append(f'<rect fill="{colour}" x="{x}" y="{top + 38}" width="10" height="10" rx="2"/>')
        drawn.append(text(x + 15, top + 47, f'{name} {milliseconds(duration)} ms', 'quiet'))
        begin, x = max(begin, moments[moment]), x + WIDTH / len(PARTS)
    return drawn


def time_line(recoveries):
    """`recoveries`: the moments by the name of the case."""
    height = TOP + LANE * len(recoveries)
    drawn = [text(LEFT, 30, 'From a failure to the first step of both workers', 'title'),
             text(LEFT, 48, 'Of each case the recovery that took the median time. Each lane has its own scale.', 'quiet')]
    for number, (case, moments) in enumerate(recoveries.items()):
        drawn += lane(case, moments, TOP + 10 + LANE * number)
    size = f'{2 * LEFT + WIDTH} {height}'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img">\n<style>{STYLE}\n</style>\n'
            f'<rect class="paper" width="100%" height="100%"/>\n' + '\n'.join(drawn) + '\n</svg>\n')
