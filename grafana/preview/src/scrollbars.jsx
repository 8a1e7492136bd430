// A box that does not scroll, in place of a scrolling one: a picture does not, either.
import React from 'react';

export class Scrollbars extends React.Component {
  render() {
    const { style, className, children } = this.props;
    const box = { position: 'relative', overflow: 'hidden', width: '100%', height: '100%' };
    return (
      <div className={className} style={{ ...box, ...style }}>
        {children}
      </div>
    );
  }
}

export default Scrollbars;
